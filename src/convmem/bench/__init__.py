"""The benchmark: questions with known evidence, contexts built around them, metrics, statistics, the papers' numbers.

Knows datasets and arithmetic. What is here makes no model call and knows no method.
"""
