import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import {
  type DispatchState,
  defaultTailShare,
  dispatchOf,
  localWaitMs,
  tailShareOf,
} from '../../../../core/policy/disco/dispatch.ts'
import { createTokenCounts, createTtft } from '../../../../core/policy/disco/estimates.ts'
import type { Side, StartDelays } from '../../../../core/policy/disco/state.ts'
import type { Distribution } from '../../../../core/policy/estimate/distribution.ts'
import { type Atom, atomsOf, exactLengths, lineDistribution, stepDistribution } from '../../../support/distributions.ts'

const share = fc.double({ min: 0, max: 1, noNaN: true })
const atoms = (max: number) =>
  fc.array(fc.tuple(fc.integer({ min: 1, max }), fc.integer({ min: 1, max: 20 })), { minLength: 1, maxLength: 8 }).map(atomsOf)
const lengths = atoms(2_000)
const ttfts = atoms(20_000)
const tailShare = fc.double({ min: 0.001, max: 0.999, noNaN: true })
const sides = fc.constantFrom<Side>('local', 'remote')

/** Of a small world whose distributions are known exactly. */
const stateOf = (
  constrained: Side,
  b: number,
  alpha: number,
  remoteTtftMs: Distribution,
  prompts: readonly Atom[],
): DispatchState => ({
  constrained,
  share: b,
  tailShare: alpha,
  remoteTtftMs,
  promptLengths: exactLengths(prompts),
})

/** Expected share of all prompt tokens that the constrained side processes: E[I(l)·l] / E[l]. */
function expectedShare(
  state: DispatchState,
  prompts: readonly Atom[],
  dispatch = (length: number): StartDelays => dispatchOf(length, state),
): number {
  const mean = prompts.reduce((sum, { value, p }) => sum + value * p, 0)
  return prompts.reduce((sum, { value, p }) => sum + value * p * useOf(state, dispatch(value)), 0) / mean
}

/** Probability that the constrained side starts. */
function useOf({ constrained, remoteTtftMs }: DispatchState, dispatch: StartDelays): number {
  if (constrained === 'remote') return dispatch.remote === 0 ? 1 : 0
  return dispatch.local === 0 ? 1 : 1 - remoteTtftMs.cdf(dispatch.local)
}

/** E[TTFT | l] of a device with TTFT k·l + c: min(server, wait + device), since the device starts only if the server is late. */
const expectedTtftMs = (dispatch: StartDelays, length: number, remote: readonly Atom[], k: number, c: number): number =>
  remote.reduce((sum, { value, p }) => sum + p * Math.min(dispatch.remote + value, dispatch.local + k * length + c), 0)

describe('the dispatch of requests under a budget', () => {
  it('never lets the constrained side process more than its share of the prompt tokens', () => {
    fc.assert(
      fc.property(sides, share, tailShare, ttfts, lengths, fc.boolean(), (side, b, alpha, remote, prompts, isContinuous) => {
        const f = isContinuous ? lineDistribution(remote) : stepDistribution(remote)
        expect(expectedShare(stateOf(side, b, alpha, f, prompts), prompts)).toBeLessThanOrEqual(b + 1e-9)
      }),
      { numRuns: 500, examples: [['local', 1, 0.05, atomsOf([[500, 1]]), atomsOf([[10, 1]]), false]] },
    )
  })

  it('uses all of a limited device, where the time of the server is continuous', () => {
    fc.assert(
      fc.property(share, tailShare, ttfts, lengths, (b, alpha, remote, prompts) => {
        expect(expectedShare(stateOf('local', b, alpha, lineDistribution(remote), prompts), prompts)).toBeCloseTo(b, 9)
      }),
      { numRuns: 500 },
    )
  })

  it('never expects a later first token of a larger budget', () => {
    const local = fc.tuple(fc.double({ min: 0, max: 40, noNaN: true }), fc.double({ min: 0, max: 5_000, noNaN: true }))
    fc.assert(
      fc.property(sides, share, share, tailShare, ttfts, lengths, local, (side, b1, b2, alpha, remote, prompts, [k, c]) => {
        const expected = (b: number) => {
          const state = stateOf(side, b, alpha, stepDistribution(remote), prompts)
          return prompts.map(({ value }) => expectedTtftMs(dispatchOf(value, state), value, remote, k, c))
        }
        const [small, large] = [expected(Math.min(b1, b2)), expected(Math.max(b1, b2))]
        for (const [i, ms] of large.entries()) expect(ms).toBeLessThanOrEqual((small[i] ?? 0) + 1e-6)
      }),
      { numRuns: 500 },
    )
  })

  it('never makes a shorter prompt wait longer for the device, nor a longer one for the server', () => {
    const length = fc.integer({ min: 1, max: 3_000 })
    fc.assert(
      fc.property(sides, share, tailShare, ttfts, lengths, length, length, (side, b, alpha, remote, prompts, l1, l2) => {
        const state = stateOf(side, b, alpha, stepDistribution(remote), prompts)
        const [short, long] = [dispatchOf(Math.min(l1, l2), state), dispatchOf(Math.max(l1, l2), state)]
        expect(short.local).toBeLessThanOrEqual(long.local)
        expect(short.remote).toBeGreaterThanOrEqual(long.remote)
      }),
      { numRuns: 500 },
    )
  })

  it('starts the limited side only if the other one fails, without a budget, and both at once with a whole one', () => {
    fc.assert(
      fc.property(sides, tailShare, ttfts, lengths, (side, alpha, remote, prompts) => {
        const [none, whole] = [0, 1].map((b) => stateOf(side, b, alpha, stepDistribution(remote), prompts))
        for (const value of [...prompts.map(({ value }) => value), 1e6]) {
          if (none) expect(dispatchOf(value, none)[side]).toBe(Number.POSITIVE_INFINITY)
          if (whole) expect(dispatchOf(value, whole)).toEqual({ local: 0, remote: 0 })
        }
      }),
    )
  })
})

describe('a limited device', () => {
  it('waits for F⁻¹(1 − min(α, b)), prompts of all lengths, while the budget is at most α', () => {
    fc.assert(
      fc.property(tailShare, tailShare, ttfts, lengths, (b, alpha, remote, prompts) => {
        const f = stepDistribution(remote)
        const waits = prompts.map(({ value }) => localWaitMs(value, stateOf('local', b, alpha, f, prompts)))
        const tailMs = f.quantile(1 - Math.min(alpha, b))
        if (b <= alpha) expect(waits).toEqual(prompts.map(() => tailMs))
        else expect(Math.max(...waits)).toBeLessThanOrEqual(tailMs)
      }),
    )
  })

  it('starts at once on the shortest prompts, as many as the budget allows: no other such waits start earlier within it', () => {
    fc.assert(
      fc.property(share, tailShare, ttfts, lengths, (b, alpha, remote, prompts) => {
        fc.pre(b > alpha)
        const f = stepDistribution(remote)
        const state = stateOf('local', b, alpha, f, prompts)
        const tailMs = f.quantile(1 - alpha)
        // By brute force: the first prompts at once, the next one after any time at which F changes, all others after w_tail.
        const spent = (waits: readonly number[]) =>
          expectedShare(state, prompts, (length) => ({
            local: waits[prompts.findIndex(({ value }) => value === length)] ?? 0,
            remote: 0,
          }))
        const candidates = prompts.flatMap((_, first) =>
          [0, ...remote.map(({ value }) => value).filter((ms) => ms <= tailMs)].map((ms) =>
            prompts.map((_, i) => (i < first ? 0 : i === first ? ms : tailMs)),
          ),
        )
        const allowed = candidates.filter((waits) => spent(waits) <= b + 1e-9)
        const earliest = allowed.reduce((best, waits) => (isEarlier(waits, best) ? waits : best))
        expect(prompts.map(({ value }) => localWaitMs(value, state))).toEqual(earliest)
      }),
      { numRuns: 300 },
    )
  })

  it('has an α of its own where none is set, and keeps to its share with it', () => {
    const local = fc.tuple(fc.double({ min: 0, max: 40, noNaN: true }), fc.double({ min: 0, max: 5_000, noNaN: true }))
    fc.assert(
      fc.property(share, ttfts, lengths, local, fc.boolean(), (b, remote, prompts, [k, c], isContinuous) => {
        const f = isContinuous ? lineDistribution(remote) : stepDistribution(remote)
        const localMs = (tokens: number) => k * tokens + c
        const state = { ...stateOf('local', b, 0, f, prompts), tailShare: undefined, localMs }
        const alpha = tailShareOf(state)
        expect(alpha).toBeGreaterThanOrEqual(defaultTailShare)
        expect(alpha).toBeLessThanOrEqual(Math.max(defaultTailShare, b))
        expect(prompts.map(({ value }) => localWaitMs(value, state))).toEqual(
          prompts.map(({ value }) => localWaitMs(value, { ...state, tailShare: alpha })),
        )
        expect(expectedShare(state, prompts)).toBeLessThanOrEqual(b + 1e-9)
      }),
      { numRuns: 400 },
    )
  })

  it('gives more of its share to a server with a heavy tail than to a steady one', () => {
    const prompts = atomsOf([
      [20, 5],
      [60, 4],
      [200, 1],
    ])
    const localMs = (tokens: number) => 10 * tokens
    const alphaOf = (remote: readonly Atom[]) =>
      tailShareOf({ ...stateOf('local', 0.2, 0, stepDistribution(remote), prompts), tailShare: undefined, localMs })
    const [steady, heavy] = [
      atomsOf([
        [400, 90],
        [900, 10],
      ]),
      atomsOf([
        [400, 85],
        [9_000, 10],
        [40_000, 5],
      ]),
    ]
    expect(alphaOf(steady)).toBeLessThan(alphaOf(heavy))
  })

  it('keeps to its share before anything is known of the server', () => {
    const prompts = atomsOf([
      [10, 1],
      [20, 1],
      [70, 1],
    ])
    const state = stateOf('local', 0.35, defaultTailShare, createTtft(), prompts)
    expect([10, 20, 70].map((length) => dispatchOf(length, state).local)).toEqual([0, 0, Number.POSITIVE_INFINITY])
  })
})

/** In the order of the prompts' lengths. */
function isEarlier(a: readonly number[], b: readonly number[]): boolean {
  const differs = a.findIndex((wait, i) => wait !== b[i])
  return differs !== -1 && (a[differs] ?? 0) < (b[differs] ?? 0)
}

describe('a limited server', () => {
  it('starts from the smallest length l on, of which shorter prompts have 1 − b of all tokens', () => {
    fc.assert(
      fc.property(share, lengths, (b, prompts) => {
        fc.pre(b > 0)
        const state = stateOf('remote', b, defaultTailShare, createTtft(), prompts)
        const mean = prompts.reduce((sum, { value, p }) => sum + value * p, 0)
        const below = (length: number) =>
          prompts.filter(({ value }) => value < length).reduce((sum, { value, p }) => sum + value * p, 0)
        const longest = prompts.at(-1)?.value ?? 0
        const threshold = Array.from({ length: longest + 2 }, (_, l) => l).find((l) => below(l) / mean >= 1 - b - 1e-12)
        for (const { value } of prompts) expect(dispatchOf(value, state).remote === 0).toBe(value >= (threshold ?? 0))
      }),
    )
  })

  it('cuts the time to the first token by as much as any choice of lengths with as many tokens, if the server is no faster than c', () => {
    fc.assert(
      fc.property(share, ttfts, lengths, fc.double({ min: 0, max: 40, noNaN: true }), (b, remote, prompts, k) => {
        const c = Math.min(...remote.map(({ value }) => value))
        const state = stateOf('remote', b, defaultTailShare, stepDistribution(remote), prompts)
        const cuts = prompts.map(({ value, p }) => {
          const [alone, both] = [
            { local: 0, remote: Number.POSITIVE_INFINITY },
            { local: 0, remote: 0 },
          ].map((dispatch) => expectedTtftMs(dispatch, value, remote, k, c))
          return p * ((alone ?? 0) - (both ?? 0))
        })
        const chosen = prompts.map(({ value }) => dispatchOf(value, state).remote === 0)
        const total = (isIn: (i: number) => boolean, of: (i: number) => number) =>
          prompts.reduce((sum, _, i) => sum + (isIn(i) ? of(i) : 0), 0)
        const tokens = (i: number) => (prompts[i]?.value ?? 0) * (prompts[i]?.p ?? 0)
        const used = total((i) => chosen[i] === true, tokens)
        const best = total(
          (i) => chosen[i] === true,
          (i) => cuts[i] ?? 0,
        )
        for (let set = 0; set < 2 ** prompts.length; set += 1) {
          const isIn = (i: number) => (set & (1 << i)) > 0
          if (total(isIn, tokens) <= used + 1e-9) expect(total(isIn, (i) => cuts[i] ?? 0)).toBeLessThanOrEqual(best + 1e-6)
        }
      }),
    )
  })
})

describe('patience with a device that is to answer alone', () => {
  const ms = fc.integer({ min: 1, max: 60_000 })

  it('bounds the wait for the server, and starts it at once where the device would take longer than both', () => {
    fc.assert(
      fc.property(share, ttfts, lengths, ms, ms, (b, remote, prompts, maxMs, localMs) => {
        const paper = stateOf('remote', b, defaultTailShare, stepDistribution(remote), prompts)
        for (const { value } of prompts) {
          const [own, printed] = [{ ...paper, patience: { maxMs, localMs } }, paper].map((state) => dispatchOf(value, state))
          expect(own!.local).toBe(0)
          if (b === 0) expect(own!.remote).toBe(Number.POSITIVE_INFINITY)
          else if (printed!.remote === 0) expect(own!.remote).toBe(0)
          else if (localMs > maxMs && localMs > paper.remoteTtftMs.quantile(0.5)) expect(own!.remote).toBe(0)
          else expect(own!.remote).toBe(maxMs)
        }
      }),
    )
  })

  it('spends nothing beyond the share on a device that is quick enough', () => {
    fc.assert(
      fc.property(share, ttfts, lengths, ms, (b, remote, prompts, localMs) => {
        const state = { ...stateOf('remote', b, defaultTailShare, stepDistribution(remote), prompts) }
        const own = { ...state, patience: { maxMs: localMs, localMs } }
        const begun = (length: number) => {
          const dispatch = dispatchOf(length, own)
          // By then the device has its first token, and the server is not started any more.
          return { ...dispatch, remote: dispatch.remote >= localMs ? Number.POSITIVE_INFINITY : dispatch.remote }
        }
        expect(expectedShare(own, prompts, begun)).toBeLessThanOrEqual(b + 1e-9)
      }),
    )
  })

  it('is not asked of a server that is to wait for nothing: a limited device', () => {
    fc.assert(
      fc.property(share, ttfts, lengths, ms, ms, (b, remote, prompts, maxMs, localMs) => {
        const state = stateOf('local', b, defaultTailShare, stepDistribution(remote), prompts)
        for (const { value } of prompts)
          expect(dispatchOf(value, { ...state, patience: { maxMs, localMs } })).toEqual(dispatchOf(value, state))
      }),
    )
  })
})

describe('the dispatch by histograms of what was seen', () => {
  it('keeps to the share of the samples themselves, within the width of a bin', () => {
    const random = seededRandom(3)
    const drawn = (median: number, spread: number) =>
      Array.from({ length: 100 }, () => Math.round(median * Math.exp(spread * (random.next() + random.next() - 1))))
    const [ttfts, prompts] = [drawn(500, 1.5), drawn(60, 2)]
    const [remoteTtftMs, promptLengths] = [createTtft(), createTokenCounts()]
    for (let i = 0; i < 4_000; i += 1) {
      remoteTtftMs.record(ttfts[i % 100] ?? 0)
      promptLengths.record(prompts[(37 * i) % 100] ?? 0)
    }
    const [f, p] = [stepDistribution(atomsOf(ttfts.map((ms) => [ms, 1]))), atomsOf(prompts.map((tokens) => [tokens, 1]))]
    for (const constrained of ['local', 'remote'] as const)
      for (const b of [0.02, 0.1, 0.3, 0.5, 0.8, 0.95]) {
        const state = { constrained, share: b, remoteTtftMs, promptLengths }
        const used = expectedShare({ ...state, remoteTtftMs: f }, p, (length) => dispatchOf(length, state))
        expect(used).toBeLessThan(b + 0.03)
        expect(used).toBeGreaterThan(b - 0.06)
      }
  })
})
