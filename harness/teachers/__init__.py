"""Which teacher scores which rollout, and how its states are kept."""
