"""What a thread waits for, by the frames of its stack."""

from __future__ import annotations

from typing import Any

from forensics.analysis.fingerprint import base_name

# Names in a frame's file or function that tell what its thread waits for, most telling first.
_WAITS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "hang-collective",
        (
            "allreduce",
            "all_reduce",
            "allgather",
            "all_gather",
            "reduce_scatter",
            "broadcast",
            "barrier",
            "alltoall",
            "all_to_all",
            "hccl",
            "nccl",
            "mccl",
            "communication",
        ),
    ),
    (
        "hang-input",
        (
            "dataset/",
            "dataset\\",
            "iterators.py",
            "get_next",
            "getnext",
            "queue.py",
            "dataloader",
            "__next__",
            "socket.py",
            "ssl.py",
            "http",
        ),
    ),
)


def waits_for(frames: list[dict[str, Any]]) -> tuple[str | None, str]:
    """What the innermost telling frame waits for, and that frame; None and "" where none tells."""
    for frame in reversed(frames[-30:]):
        place = f"{frame.get('file', '')}:{frame.get('function', '')}"[:600]
        for cause, names in _WAITS:
            if any(name in place.lower() for name in names):
                return cause, f"{base_name(str(frame.get('file', '')))[:100]}, {str(frame.get('function', ''))[:100]}"
    return None, ""
