"""Pi: an extension of ours, tools, skills and prompt templates in its agent folder."""
