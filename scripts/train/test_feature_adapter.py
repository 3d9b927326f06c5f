"""Tests of the adapter with features: what it may see, that drafting position by position gives what roll_out computes."""

import unittest

import torch
from torch import Tensor

from feature_adapter import FeatureAdapter, shift, visible_features
from model import Adapter
from test_model import CONFIG
from train_adapter import STEPS, draft_masks, generated_rows, prompt_end

TIME, FIRST = 14, 6
GENERATED = torch.arange(TIME)[None] >= FIRST


def adapter_and_rows() -> tuple[FeatureAdapter, Tensor, Tensor]:
    """An adapter with random weights, and shallow and deep states of 14 rows."""
    generator = torch.Generator().manual_seed(0)
    adapter = FeatureAdapter(CONFIG)
    adapter.initialise(0)
    for weight in (adapter.attention.o_proj.weight, adapter.feature_proj.weight):
        torch.nn.init.normal_(weight, 0.0, 0.2, generator=generator)
    shallow, deep = (torch.randn(1, TIME, CONFIG.hidden_size, generator=generator) for _ in range(2))
    return adapter.requires_grad_(False), shallow, deep


class RollingOut(unittest.TestCase):
    def test_equals_drafting_one_row_at_a_time_with_predicted_features(self):
        adapter, shallow, f = adapter_and_rows()
        features = visible_features(f, GENERATED)
        results = adapter.roll_out(shallow, features, 4)
        for start in range(FIRST, TIME - 4):  # the first draft row: its feature is true
            seen = features.clone()
            for step in range(4):
                end = start + step + 1
                (one_pass,) = adapter.roll_out(shallow[:, :end], seen[:, :end], 1)
                self.assertTrue(torch.allclose(one_pass[0, -1], results[step][0, end - 1], atol=1e-5), (start, step))
                seen[:, end] = one_pass[:, -1]  # what the next draft row reads

    def test_deep_states_of_the_prompt_but_its_last_are_never_read(self):
        adapter, shallow, f = adapter_and_rows()
        changed = f.clone()
        changed[:, : FIRST - 1] += 1
        before = adapter.roll_out(shallow, visible_features(f, GENERATED), 3)
        for ours, theirs in zip(before, adapter.roll_out(shallow, visible_features(changed, GENERATED), 3), strict=True):
            self.assertTrue(torch.equal(ours, theirs))
        changed[:, FIRST - 1] += torch.randn(CONFIG.hidden_size, generator=torch.Generator().manual_seed(1))
        after = adapter.roll_out(shallow, visible_features(changed, GENERATED), 1)[0]
        self.assertFalse(torch.allclose(after[:, FIRST], before[0][:, FIRST]))

    def test_a_draft_row_reads_nothing_of_later_rows_nor_features_from_its_draft_on(self):
        adapter, shallow, f = adapter_and_rows()
        before = adapter.roll_out(shallow, visible_features(f, GENERATED), 3)[2][:, 10]
        f[:, 8:] += 1  # the draft's first row is 8, which reads f of row 7
        shallow[:, 11:] += 1
        self.assertTrue(torch.allclose(adapter.roll_out(shallow, visible_features(f, GENERATED), 3)[2][:, 10], before))

    def test_has_four_square_matrices_and_two_norms(self):
        size = CONFIG.hidden_size
        self.assertEqual(sum(weight.numel() for weight in FeatureAdapter(CONFIG).parameters()), 4 * size * size + 2 * size)

    def test_starts_as_the_plain_adapter_whose_paired_heads_agree(self):
        generator, (_, shallow, f) = torch.Generator().manual_seed(2), adapter_and_rows()
        plain, adapter = Adapter(CONFIG).requires_grad_(False), FeatureAdapter(CONFIG).requires_grad_(False)
        plain.initialise(0)
        torch.nn.init.normal_(plain.attention.o_proj.weight, 0.0, 0.2, generator=generator)
        for projection in (plain.attention.k_proj, plain.attention.v_proj):
            heads = projection.weight.view(-1, 2, CONFIG.head_dim, CONFIG.hidden_size)
            heads[:, 1] = heads[:, 0]
        adapter.initialise(0)
        adapter.start_from(plain)
        (drafted,) = adapter.roll_out(shallow, visible_features(f, GENERATED), 1)
        self.assertTrue(torch.allclose(drafted, plain(shallow), atol=1e-5))

    def test_shifting_moves_rows_later(self):
        rows = torch.arange(1.0, 4)[:, None]
        self.assertEqual(shift(rows, 1)[:, 0].tolist(), [0, 1, 2])
        self.assertTrue(torch.equal(shift(rows, 0), rows))


class Training(unittest.TestCase):
    def test_a_place_in_the_draft_is_learnt_only_where_a_true_feature_stands_before_it(self):
        masks = draft_masks(torch.ones(1, TIME), generated_rows(torch.ones(1, TIME), FIRST))
        self.assertEqual([int(mask.argmax()) for mask in masks], [FIRST + step for step in range(STEPS)])

    def test_answers_in_a_window_are_drafted_each_for_itself(self):
        keep = torch.tensor([[0, 0, 1, 1, 1, 0, 0, 1, 1, 1, 1, 0.0]])  # row i learns token i + 1
        generated = generated_rows(keep, 0)
        self.assertEqual(generated[0].nonzero()[:, 0].tolist(), [3, 4, 5, 8, 9, 10, 11])
        places = [mask[0].nonzero()[:, 0].tolist() for mask in draft_masks(keep, generated)]
        self.assertEqual(places, [[3, 4, 8, 9, 10], [4, 9, 10], [10], []])

    def test_prompt_ends_repeat_and_stay_in_range(self):
        ends = [prompt_end(512, 1, step) for step in range(200)]
        self.assertEqual(ends, [prompt_end(512, 1, step) for step in range(200)])
        self.assertTrue(16 <= min(ends) and max(ends) < 256 and len(set(ends)) > 50)
        self.assertGreaterEqual(prompt_end(20, 1, 0), 16)


if __name__ == "__main__":
    unittest.main()
