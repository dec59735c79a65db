"""The losses against the identities of the papers, in float64."""

import itertools
import math

import pytest
import torch

from train.objective import CrossEntropy, SquaredRegression, advantages, baseline

pytestmark = pytest.mark.claim("k15-objective")

TAU = 0.05
K, T, V = 6, 5, 7


def policy(seed=0):
    """A table of logits, k sequences drawn from another policy, rewards."""
    generator = torch.Generator().manual_seed(seed)
    theta_TV = torch.randn(T, V, generator=generator, dtype=torch.double, requires_grad=True)
    tokens_KT = torch.randint(V, (K, T), generator=generator)
    reward_K = torch.randint(2, (K,), generator=generator).double()
    reward_K[0], reward_K[1] = 0.0, 1.0
    return theta_TV, tokens_KT, reward_K


def logp(theta_TV, tokens_KT):
    """Log-probability of every token, flat, as an engine gives it."""
    logp_TV = theta_TV.log_softmax(-1)
    return logp_TV[torch.arange(T), tokens_KT].flatten()


def parts(theta_TV, tokens_KT, reward_K, old_K):
    rows = torch.arange(K).repeat_interleave(T)
    level = torch.tensor(advantages(reward_K.tolist()), dtype=torch.double)
    loss = SquaredRegression(level, old_K, TAU)
    flat = logp(theta_TV, tokens_KT)
    return loss(flat, torch.ones(K * T, dtype=torch.double), rows)


def gradient(value, theta):
    (out,) = torch.autograd.grad(value, theta)
    return out


def test_the_gradient_is_equation_3_of_k15_with_the_sign_turned():
    theta, tokens, reward = policy()
    old = logp(policy(1)[0], tokens).view(K, T).sum(1).detach()
    new = logp(theta, tokens).view(K, T).sum(1)
    centred = reward - reward.mean()
    # (1/k) sum of (r - r_bar) log pi - tau/2 (log pi/pi_i)^2: its gradient is equation 3
    equation_3 = (centred * new - TAU / 2 * (new - old) ** 2).mean()
    wanted = gradient(equation_3, theta)
    found = gradient(parts(theta, tokens, reward, old), theta)
    assert torch.allclose(found, -wanted, rtol=0, atol=1e-10)


def test_undivided_it_would_be_two_tau_times_as_large():
    theta, tokens, reward = policy()
    old = logp(policy(1)[0], tokens).view(K, T).sum(1).detach()
    new = logp(theta, tokens).view(K, T).sum(1)
    raw = ((reward - reward.mean() - TAU * (new - old)) ** 2).mean()
    found = gradient(parts(theta, tokens, reward, old), theta)
    assert torch.allclose(gradient(raw, theta), 2 * TAU * found, rtol=0, atol=1e-10)


def test_at_the_old_policy_it_is_reinforce_with_the_group_mean():
    theta, tokens, reward = policy()
    new = logp(theta, tokens).view(K, T).sum(1)
    reinforce = -((reward - reward.mean()) * new).mean()
    found = gradient(parts(theta, tokens, reward, new.detach()), theta)
    assert torch.allclose(found, gradient(reinforce, theta), rtol=0, atol=1e-10)


def test_tau_is_inert_at_the_first_step_and_acts_at_the_second():
    theta, tokens, reward = policy()
    rows, ones = torch.arange(K).repeat_interleave(T), torch.ones(K * T, dtype=torch.double)
    level = torch.tensor(advantages(reward.tolist()), dtype=torch.double)
    here = logp(theta, tokens).view(K, T).sum(1).detach()
    elsewhere = here - 0.5

    def step(old, tau):
        return gradient(SquaredRegression(level, old, tau)(logp(theta, tokens), ones, rows), theta)

    assert torch.allclose(step(here, 0.01), step(here, 1.0), rtol=0, atol=1e-12)
    assert not torch.allclose(step(elsewhere, 0.01), step(elsewhere, 1.0), atol=1e-3)


def test_batches_of_whole_rows_add_up_to_the_loss_of_all():
    theta, tokens, reward = policy()
    old = logp(policy(1)[0], tokens).view(K, T).sum(1).detach()
    level = torch.tensor(advantages(reward.tolist()), dtype=torch.double)
    loss = SquaredRegression(level, old, TAU)
    flat, rows = logp(theta, tokens), torch.arange(K).repeat_interleave(T)
    ones = torch.ones(K * T, dtype=torch.double)
    halves = [loss(flat[part], ones[part], rows[part]) for part in (slice(0, 10), slice(10, K * T))]
    assert sum(halves).item() == pytest.approx(loss(flat, ones, rows).item(), abs=1e-12)


def minimise(baseline_value, tau=0.3):
    """Minimise the expected objective over 3 answers of known reward, exactly."""
    reward_V = torch.tensor([1.0, 0.0, 0.5], dtype=torch.double)
    old_V = torch.tensor([0.2, 0.5, 0.3], dtype=torch.double).log()
    theta_V = old_V.clone().requires_grad_(True)
    rows = torch.arange(3)
    loss = SquaredRegression(reward_V - baseline_value, old_V, tau)
    optimizer = torch.optim.LBFGS(
        [theta_V], max_iter=500, tolerance_grad=1e-14, line_search_fn="strong_wolfe"
    )

    def closure():
        optimizer.zero_grad()
        value_V = ((loss.advantage_R - tau * (theta_V.log_softmax(0) - old_V)) ** 2) / (2 * tau)
        value = (old_V.exp() * value_V).sum()
        value.backward()
        return value

    optimizer.step(closure)
    with torch.no_grad():
        assert loss(theta_V.log_softmax(0), torch.ones(3), rows).item() >= 0
    exact_V = (old_V + reward_V / tau).log_softmax(0)
    found_V = theta_V.detach().log_softmax(0)
    return (exact_V.exp() * (exact_V - found_V)).sum().item(), reward_V, old_V


def test_the_tabular_minimiser_with_the_exact_normaliser_is_the_closed_form():
    tau = 0.3
    reward = torch.tensor([1.0, 0.0, 0.5], dtype=torch.double)
    old = torch.tensor([0.2, 0.5, 0.3], dtype=torch.double).log()
    tau_log_z = tau * torch.logsumexp(old + reward / tau, 0).item()
    assert abs(minimise(tau_log_z)[0]) < 1e-9


def test_with_the_mean_reward_it_is_close_and_not_equal():
    mean = 0.2 * 1.0 + 0.5 * 0.0 + 0.3 * 0.5
    assert 1e-4 < minimise(mean)[0] < 0.2


def test_the_log_z_baseline_matches_brute_force_and_tends_to_the_mean():
    rewards = [1.0, 0.0, 0.0, 1.0, 0.0]
    brute = 0.1 * math.log(sum(math.exp(r / 0.1) for r in rewards) / 5)
    assert baseline(rewards, tau=0.1, kind="log_z") == pytest.approx(brute, abs=1e-12)
    assert baseline(rewards, tau=1e6, kind="log_z") == pytest.approx(0.4, abs=1e-6)
    assert baseline(rewards, tau=1e-3, kind="log_z") == pytest.approx(1.0, abs=0.01)


def test_an_unscored_sample_has_no_advantage_and_no_part_in_the_baseline():
    assert advantages([1.0, None, 0.0]) == [0.5, None, -0.5]
    assert advantages([1.0, None, None]) == [None, None, None]
    assert advantages([]) == []


def test_cross_entropy_is_the_token_mean_of_the_whole_step():
    logp_N = torch.tensor([-1.0, -2.0, -4.0])
    weight_N = torch.tensor([1.0, 1.0, 0.5])
    rows = torch.tensor([0, 0, 1])
    loss = CrossEntropy(total=2.5)
    whole = loss(logp_N, weight_N, rows).item()
    assert whole == pytest.approx((1 + 2 + 2) / 2.5)
    for cut in itertools.chain([1, 2]):
        split = loss(logp_N[:cut], weight_N[:cut], rows[:cut]) + loss(
            logp_N[cut:], weight_N[cut:], rows[cut:]
        )
        assert split.item() == pytest.approx(whole)
