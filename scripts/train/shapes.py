"""Shapes of the models that train_llm.py trains: the LLM, and small models of at most an eighth of their weights."""

from model import LlmConfig

SHAPES = {
    "llm": LlmConfig(),  # 2.9 million weights
    "slm-wide": LlmConfig(hidden_size=64, num_hidden_layers=2, num_attention_heads=4, head_dim=16, intermediate_size=128),
    "slm-deep": LlmConfig(
        hidden_size=48, num_hidden_layers=6, num_attention_heads=3, num_key_value_heads=1, head_dim=16, intermediate_size=128
    ),
}
