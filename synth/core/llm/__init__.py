"""Models behind the LLM protocol: any OpenAI-compatible endpoint, and a scripted one."""
