"""Facts of the configuration (FedSAM, Table 3; FedSMOO, Tables 4 and 5; FedLESAM, Table 6)."""

from __future__ import annotations

from flatfed.plan.quantity import register

#: Stored unit -> facts.
FACTS = {
    "count": (
        *("clients", "total_samples", "train_samples", "test_samples", "classes", "domains"),
        *("image_channels", "image_height", "image_width"),
    ),
    "number": (
        *("hp_local_learning_rate", "hp_sam_learning_rate", "hp_penalized_coefficient_beta"),
        *("hp_client_level_momentum_alpha", "hp_global_learning_rate", "hp_learning_rate_decay"),
    ),
}
for unit, names in FACTS.items():
    for name in names:
        words = name.removeprefix("hp_").replace("_", " ").capitalize()
        register(name, lambda reading: reading.config_fact, unit, words, higher=None, source="config")
