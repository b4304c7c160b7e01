"""Measure the cost of AnonML: an onion layer with real encryption, and one curve of its experiments.

python benchmarks/anonml.py

golfsim counts onion layers and does not encrypt. One real layer is a NaCl sealed box of a packet, which needs PyNaCl.
"""

import tempfile
import time
from pathlib import Path

import golfsim
from golfsim.runs import batch
from protocols.anonml import circuits, tokens

SCENARIO = Path(__file__).parents[1] / "scenarios" / "papers" / "c17" / "c17_8_2.toml"
CURVE = {"sweep.data.set": ["adult"], "case": [], "anonml.subset_size": 3, "anonml.partitions": 5}
BOXES = 2000


def onion_layer() -> str:
    """Return microseconds to encrypt and decrypt a layer around a packet of 16 bits with three relays."""
    try:
        from nacl.public import PrivateKey, SealedBox
    except ImportError as error:
        return f"one onion layer: not measured, {error} (pip install pynacl)"
    secret = PrivateKey.generate()
    closing, opening = SealedBox(secret.public_key), SealedBox(secret)
    packet = bytes(circuits.packet_bytes(16, tokens.BYTES, 3) - circuits.SEALED_BOX)
    begun = time.perf_counter()
    boxes = [closing.encrypt(packet) for _ in range(BOXES)]
    closed = time.perf_counter()
    assert all(opening.decrypt(box) == packet for box in boxes)
    opened = time.perf_counter()
    added = len(boxes[0]) - len(packet)
    micro = [1e6 * seconds / BOXES for seconds in (closed - begun, opened - closed)]
    return f"one onion layer: {micro[0]:.0f} µs to encrypt, {micro[1]:.0f} µs to decrypt, {added} additional bytes"


def curve() -> str:
    """Return seconds of one curve of C17-8.2: 10 values of ε, 50 trials each, on Adult, on two workers."""
    scenario = golfsim.Scenario.load(SCENARIO, CURVE)
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        made = batch.run(scenario, Path(folder), batch.Execution(workers=2, threads=1))
        took = time.perf_counter() - begun
    assert not made.failures
    return f"C17-8.2 on Adult, {len(made.runs)} runs: {took:.0f} s"


if __name__ == "__main__":
    print(onion_layer())
    print(curve())
