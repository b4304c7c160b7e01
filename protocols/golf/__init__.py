"""Gossip learning: each node sends its model to a peer, which merges it with its own and updates it."""

from protocols.golf.protocol import Golf
from protocols.golf.settings import GolfConfig

__all__ = ["Golf", "GolfConfig"]
