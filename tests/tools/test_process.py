"""The output of a child process, where the disk fails."""

import asyncio
import os
from pathlib import Path
from typing import IO

import pytest

from loopfsm.tools.process import Output


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("size", [10, 100_000], ids=["found at the end", "found on the way"])
def test_a_full_disk_loses_the_rest_but_not_the_head(size: int) -> None:
    """When the file of an output cannot take it, reading goes on and the problem is told."""

    def full() -> IO[bytes]:
        return open("/dev/full", "wb")

    async def run() -> Output:
        read, write = os.pipe()
        output = Output(os.fdopen(read, "rb", 0), 4, full)
        with os.fdopen(write, "wb", 0) as pipe:
            os.set_blocking(write, False)
            data = b"x" * size
            while data:
                data = data[pipe.write(data) or 0 :]
                await asyncio.sleep(0)
        await output.ended.wait()
        return output

    output = asyncio.run(run())
    assert output.text == "xxxx"
    assert "No space left" in output.file_problem
