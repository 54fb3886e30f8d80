"""Learners that compare episodes of one task: dpo and grpo."""
