import torch

from memdecay.classifier.features import NUM_POSITION_FEATURES, RULE_SCORES_COLUMN
from memdecay.classifier.network import NetworkConfig
from memdecay.classifier.regions import NUM_REGIONS
from memdecay.training.predict import predict_logits, without_rules
from tests.training.windows import learnable_source

WEIGHT = 3.0


def test_without_rules_their_weighted_scores_are_gone_and_nothing_else() -> None:
    source = learnable_source(3, 12, NUM_POSITION_FEATURES)
    config = NetworkConfig(
        12, NUM_POSITION_FEATURES, rules_column=RULE_SCORES_COLUMN, rules_weight=WEIGHT
    )
    network = config.build().eval()
    with_rules, labels = predict_logits(network, source, range(3))
    alone, same_labels = predict_logits(without_rules(network), source, range(3))
    columns = slice(RULE_SCORES_COLUMN, RULE_SCORES_COLUMN + NUM_REGIONS)
    scores = torch.cat(
        [
            torch.from_numpy(window.position_features[window.labels >= 0][:, columns])
            for window in source.windows
        ]
    )
    torch.testing.assert_close(with_rules - alone, WEIGHT * scores, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(labels, same_labels)
    assert network.config.rules_weight == WEIGHT


def test_the_mode_is_put_back() -> None:
    source = learnable_source(1, 12, NUM_POSITION_FEATURES)
    network = NetworkConfig(12, NUM_POSITION_FEATURES, rules_column=0).build().train()
    predict_logits(network, source, [0])
    assert network.training
