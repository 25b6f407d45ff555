"""What the training and the runtime side share: regions, features, network, artefact, errors."""
