"""A fault-injecting, OpenAI-compatible endpoint on loopback: for dry runs without a key, and tests.

`server.MockLLM` runs it inside of an event loop, `threads.serving` in a thread of its own, and
`toolloom mock-llm` as a process. Answers depend on the seed and the request alone; faults on the
seed, the call's identity and the attempt. `faults.FAULTS` names each of them.
"""
