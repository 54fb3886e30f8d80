"""The world webshop: find, customise and buy what an instruction asks for."""

from hansa_worlds.webshop.world import WebShop

__all__ = ["WebShop"]
