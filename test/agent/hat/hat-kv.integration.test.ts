import { describe, expect, it } from 'vitest'
import type { HatOptions } from '../../../agent/hat/hat-options.ts'
import { decodeHalves } from '../../../core/kit/base/half.ts'
import { type Random, seededRandom } from '../../../core/kit/base/random.ts'
import { adapterDrafter } from '../../../core/model/draft/adapter-drafter.ts'
import type { KnownStream } from '../../../core/model/draft/device-stream.ts'
import type { Drafter } from '../../../core/model/draft/drafter.ts'
import type { Part } from '../../../core/model/engine/contract.ts'
import { referenceAnswer } from '../../../core/model/engine/reference.ts'
import { greedy, type Sampling } from '../../../core/model/engine/sampler.ts'
import { type States, sliceStates } from '../../../core/wire/protocol/states.ts'
import { alteredPart } from '../../support/altered-part.ts'
import { startHatWorld } from '../../support/hat-world.ts'
import { shared } from '../../support/shared.ts'
import { TimelessSpeed } from '../../support/timeless-speed.ts'

const vocab = 160
const maxTokens = 14
/** Chunks and single steps differ by rounding, a row of another prefix by tenths. */
const tolerance = 0.01

const world = shared(() => startHatWorld({ settings: { chunkTokens: 8, draftLimit: 5 } }))

/** Rows on the wire or of the adapter, with the tokens on which alone they should depend. */
interface Observation {
  readonly part: 'input' | 'middle' | 'adapter'
  /** The prefix, drafted tokens included. */
  readonly ids: readonly number[]
  /** The rows of the last positions of that prefix. */
  readonly rows: States
}

/** The length of one draft, and the share of its tokens that are right. */
type Pattern = (random: Random) => { length: number; rightShare: number }
const limit = 5
const patterns: Record<'full accept' | 'full reject' | 'empty draft' | 'random', Pattern> = {
  'full accept': () => ({ length: limit, rightShare: 1 }),
  'full reject': () => ({ length: limit, rightShare: 0 }),
  'empty draft': () => ({ length: 0, rightShare: 1 }),
  random: (random) => ({ length: Math.floor(random.next() * (limit + 1)), rightShare: random.next() }),
}

/** One answer with scripted drafts; the adapter runs along, so that its KV sees every draft and every rollback. */
async function watchedAnswer(
  prompt: readonly number[],
  right: readonly number[],
  sampling: Sampling,
  pattern: Pattern,
  random: Random,
  draftAhead = false,
) {
  const observations: Observation[] = []
  let stream: KnownStream | undefined
  const adapter = alteredPart(world.model.part('adapter'), {
    after([item], [rows]) {
      if (!item || !rows || rows.rows === 0 || !stream || !Array.isArray(item.select)) return
      // The adapter's rows have the numbers of the stream's; in a tree each has its own path.
      const first = item.sequence.length - ('states' in item ? item.states.rows : 0)
      for (const [at, selected] of item.select.entries())
        observations.push({ part: 'adapter', ids: pathTo(stream, first + selected), rows: sliceStates(rows, at, at + 1) })
    },
  })
  const options: Partial<HatOptions> = {
    draftAhead,
    speed: new TimelessSpeed(),
    createDrafter() {
      const real = adapterDrafter(adapter, world.head, sampling)
      return scriptedDrafter(real, prompt.length, right, pattern, random, (known) => {
        stream = known
      })
    },
    async open(signal) {
      const link = await world.options().open(signal)
      const exchange = link.exchange.bind(link)
      link.exchange = async (base, rows, want, form) => {
        const prefix = (stream?.ids ?? prompt).slice(0, base + rows.rows)
        observations.push({ part: 'input', ids: prefix, rows })
        const reply = await exchange(base, rows, want, form)
        if (reply.kind === 'deep' && want > 0) observations.push({ part: 'middle', ids: prefix, rows: reply.states })
        // Time to draft ahead.
        if (draftAhead) await new Promise((later) => setTimeout(later, 2))
        return reply
      }
      return link
    },
  }
  const answer = await world.answer({ prompt, maxTokens, sampling }, options)
  return { ...answer, observations }
}

/** The tokens up to a row. */
function pathTo({ ids, rows }: KnownStream, row: number): number[] {
  const path = rows.pathTo(row)
  return [...ids.slice(0, path.line), ...path.rows.map((at) => ids[at]!)]
}

/** Drafts by the pattern; the adapter computes every draft and rollback too. */
function scriptedDrafter(
  adapter: Drafter,
  start: number,
  right: readonly number[],
  pattern: Pattern,
  random: Random,
  onStream: (known: KnownStream) => void,
): Drafter {
  let draft: { at: number; left: number; rightShare: number } | undefined
  const anyToken = (choice: number) => (choice + 1 + Math.floor(random.next() * (vocab - 1))) % vocab
  return {
    async next(known, rows) {
      const position = known.rows.positionOf(rows[0]!) + 1
      // The rows of a running draft are consecutive; anything else is a new round.
      if (draft?.at !== position) {
        const { length, rightShare } = pattern(random)
        draft = { at: position, left: length, rightShare }
      }
      if (draft.left === 0) {
        draft = undefined
        return rows.map(() => [])
      }
      const { rightShare } = draft
      draft = { ...draft, at: draft.at + 1, left: draft.left - 1 }
      await adapter.next(known, rows)
      return rows.map((row) => {
        const choice = right[known.rows.positionOf(row) + 1 - start] ?? 0
        const isRight = random.next() < rightShare
        const token = isRight ? choice : anyToken(choice)
        // The alternatives of a wrong draft mostly include the right token.
        const others = !isRight && rightShare > 0 && random.next() < 0.7 ? [anyToken(token), choice] : []
        return [
          {
            token,
            source: 'adapter' as const,
            topProbability: random.next() < 0.9 ? 1 : 0.3,
            alternatives: others.filter((other) => other !== token),
          },
        ]
      })
    },
    async catchUp(known) {
      onStream(known)
      await adapter.catchUp(known)
    },
    gather: (keep, rows) => adapter.gather(keep, rows),
    release: () => adapter.release(),
  }
}

/** Largest difference between observed rows and fresh runs of their prefixes; one run serves all prefixes of its own. */
async function differenceFromFresh(observations: readonly Observation[]): Promise<number> {
  const runs: (Partial<Record<Observation['part'], States>> & { ids: readonly number[]; input: States })[] = []
  let worst = 0
  for (const { part, ids, rows } of [...observations].sort((a, b) => b.ids.length - a.ids.length)) {
    let run = runs.find((other) => ids.every((id, at) => other.ids[at] === id))
    if (!run) {
      run = { ids, input: await freshRun(world.model.part('input'), { ids }) }
      runs.push(run)
    }
    run[part] ??= await freshRun(world.model.part(part), { states: run.input })
    worst = Math.max(worst, difference(rows, sliceStates(run[part], ids.length - rows.rows, ids.length)))
  }
  return worst
}

async function freshRun(part: Part, input: { ids: readonly number[] } | { states: States }): Promise<States> {
  const sequence = part.createSequence()
  try {
    const [states] = await part.step([{ ...input, sequence, select: 'all' }])
    return states!
  } finally {
    sequence.release()
  }
}

function difference(a: States, b: States): number {
  const [left, right] = [a, b].map((states) => {
    const values = new Float32Array(states.half.length)
    decodeHalves(states.half, values)
    return values
  }) as [Float32Array, Float32Array]
  return left.reduce((max, value, at) => Math.max(max, Math.abs(value - right[at]!) / Math.max(1, Math.abs(value))), 0)
}

const randomPrompt = (random: Random, length: number) => Array.from({ length }, () => Math.floor(random.next() * vocab))
const samplingOf = (at: number): Sampling => (at % 2 === 0 ? greedy : { temperature: 0.8, topK: 0, topP: 1, seed: at })

/** Prompts with their reference answers: many patterns share one. */
async function references(random: Random, count: number) {
  const all = []
  for (let at = 0; at < count; at++) {
    const prompt = randomPrompt(random, 3 + Math.floor(random.next() * 14))
    const sampling = samplingOf(at)
    all.push({ prompt, sampling, right: await referenceAnswer(world.chain, prompt, sampling, maxTokens, []) })
  }
  return all
}

describe('the KV of all three parts equals that of a fresh run of the accepted prefix', () => {
  it.each(['full accept', 'full reject', 'empty draft'] as const)('%s', async (name) => {
    const random = seededRandom(3)
    for (const { prompt, sampling, right } of await references(random, 4)) {
      const { tokens, rounds, observations } = await watchedAnswer(prompt, right, sampling, patterns[name], random)
      expect(tokens).toEqual(right)
      expect(await differenceFromFresh(observations)).toBeLessThan(tolerance)
      const accepted = rounds.reduce((sum, round) => sum + round.accepted, 0)
      const drafted = rounds.reduce((sum, round) => sum + round.drafted, 0)
      expect({ accepted, someDrafted: drafted > 0 }).toEqual({
        accepted: name === 'full accept' ? drafted : 0,
        someDrafted: name !== 'empty draft',
      })
      const seen = new Set(observations.map(({ part }) => part))
      expect([...seen].sort()).toEqual(name === 'empty draft' ? ['input', 'middle'] : ['adapter', 'input', 'middle'])
    }
  })

  it('100 random patterns of accepting, rejecting and drafting ahead', async () => {
    const random = seededRandom(4)
    const known = await references(random, 20)
    let worst = 0
    let rejected = 0
    let accepted = 0
    let ready = 0
    for (let at = 0; at < 100; at++) {
      const { prompt, sampling, right } = known[at % known.length]!
      const { tokens, rounds, observations, figures } = await watchedAnswer(
        prompt,
        right,
        sampling,
        patterns.random,
        random,
        at % 4 === 0,
      )
      expect(tokens).toEqual(right)
      ready += figures.ahead?.rounds ?? 0
      for (const round of rounds) {
        accepted += round.accepted
        rejected += round.drafted - round.accepted
      }
      worst = Math.max(worst, await differenceFromFresh(observations))
    }
    expect(worst).toBeLessThan(tolerance)
    expect(Math.min(accepted, rejected)).toBeGreaterThan(100)
    expect(ready).toBeGreaterThan(10)
  }, 180_000)

  it('differs from the KV of any other prefix', async () => {
    const random = seededRandom(5)
    const [{ prompt, sampling, right }] = (await references(random, 1)) as [Awaited<ReturnType<typeof references>>[0]]
    const { observations } = await watchedAnswer(prompt, right, sampling, patterns['full accept'], random)
    for (const { part, ids, rows } of observations.filter((observation) => observation.ids.length > observation.rows.rows)) {
      const stale = [...ids]
      // As if a rollback had left an earlier position unchanged.
      stale[ids.length - rows.rows - 1] = (stale[ids.length - rows.rows - 1]! + 1) % vocab
      expect(await differenceFromFresh([{ part, ids: stale, rows }])).toBeGreaterThan(3 * tolerance)
    }
  })
})
