"""The crafting world of TextCraft, with recipes of its own or Minecraft's."""
