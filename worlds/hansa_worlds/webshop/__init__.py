"""The world webshop: find, customise and buy what an instruction asks for."""
