"""Cases of STABLEHLO_RNG_BIT_GENERATOR; the other random ops keep state: tests/test_random.py."""

from __future__ import annotations

import numpy as np

from cases import Case, T

PHILOX = [
    [5869932932755744586, -5339691813646437371, 8234580641674714347],
    [2641225993340350124, 1962472297844690804, -3580856229565614135],
]

CASES = [
    Case(
        "STABLEHLO_RNG_BIT_GENERATOR",
        [np.uint64([1, 2, 3])],
        {"algorithm": "DEFAULT"},
        [np.uint64([1, 5, 3]), np.int64(PHILOX)],
    ),
    # Salmon et al.'s known answer for Threefry 2x32-20 of zeros
    Case(
        "STABLEHLO_RNG_BIT_GENERATOR",
        [np.uint64([0, 0])],
        {"algorithm": "THREEFRY"},
        [np.uint64([0, 1]), np.uint32([0x6B200159, 0x99BA4EFE])],
    ),
    Case(
        "STABLEHLO_RNG_BIT_GENERATOR",
        [np.uint64([0, 0, 0])],
        {"algorithm": "THREEFRY"},
        refused="THREEFRY takes one of 2 elements",
        outputs=[T(np.uint64([0, 0, 0])), T(np.uint32([0]))],
    ),
]
