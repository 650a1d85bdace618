"""Exit codes that mean the same for every program, because the shell gives them."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from loopfsm.model.situation import SituationKind as K


@frozen
class Exit:
    """One exit code."""

    kind: K | None
    why: str
    leaves_open: frozenset[K] = frozenset()


EXITS: Mapping[int, Exit] = {
    126: Exit(
        K.PERMISSION,
        "Found, and could not be executed.",
        frozenset({K.BAD_ARGS, K.NOT_FOUND, K.NOT_INSTALLED, K.LOCKED}),
    ),
    127: Exit(
        K.NOT_INSTALLED,
        "The shell found no such program (R12); a path that is wrong looks the same.",
    ),
    9009: Exit(K.NOT_INSTALLED, "What cmd.exe answers for a name it does not know."),
    124: Exit(None, "`timeout` ended it: local time ran out, and nobody knows at what (A21)."),
    137: Exit(None, "Killed."),
    143: Exit(None, "Asked to end."),
}
