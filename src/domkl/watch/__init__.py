"""The live page: what learners predict, how they err and how they are connected, in a browser.

It knows nothing of learners: whoever runs them hands records to a `Feed`, and a `Server` shows them.
"""
