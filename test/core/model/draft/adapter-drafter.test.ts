import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { seededRandom } from '../../../../core/kit/base/random.ts'
import { adapterDrafter } from '../../../../core/model/draft/adapter-drafter.ts'
import type { DeviceStream } from '../../../../core/model/draft/device-stream.ts'
import type { DraftedToken, Drafter } from '../../../../core/model/draft/drafter.ts'
import type { Part } from '../../../../core/model/engine/contract.ts'
import { openBundle } from '../../../../core/model/engine/open-bundle.ts'
import type { LoadedModel } from '../../../../core/model/engine/open-model.ts'
import { chooseToken, greedy, topProbability } from '../../../../core/model/engine/sampler.ts'
import { type SharedHead, shareHead } from '../../../../core/model/engine/shared-head.ts'
import { concatStates, type States, sliceStates } from '../../../../core/wire/protocol/states.ts'
import { alteredPart } from '../../../support/altered-part.ts'
import { buildDrafterBundle } from '../../../support/drafter-bundle.ts'
import { shared } from '../../../support/shared.ts'
import { tempDir } from '../../../support/temp-dir.ts'
import { freshRows, rowsBefore, verifiedStream } from '../../../support/verified-stream.ts'

const vocab = 160
/** Of a probability: steps of one row and of several rows differ by rounding. */
const tolerance = 1e-4

const dir = shared(tempDir)
let model: LoadedModel
let head: SharedHead
beforeAll(async () => {
  const bundle = await buildDrafterBundle(dir.path)
  model = await openBundle(bundle, { parts: ['input', 'middle', 'output', 'adapter', 'adapter-paper'], threads: 1 })
  head = shareHead(model.head(), model.manifest.dims.vocab)
})
afterAll(() => model.release())

const random = seededRandom(8)
const randomIds = (count: number) => Array.from({ length: count }, () => Math.floor(random.next() * vocab))

/** @param position of the sampled token */
async function drafted(states: States, sampling = greedy, position = 0): Promise<DraftedToken> {
  const [only] = await head.read(sliceStates(states, states.rows - 1, states.rows), (logits) => ({
    token: chooseToken(logits, sampling, position),
    source: 'adapter' as const,
    topProbability: topProbability(logits),
    alternatives: [],
  }))
  return only!
}

/** The drafter's guess after the stream's last row. */
async function next(drafter: Drafter, known: DeviceStream): Promise<readonly DraftedToken[]> {
  const [guesses] = await drafter.next(known, [known.rows.length - 1])
  return guesses!
}

/** The guess of a new drafter, which has not read the stream before. */
async function guessOfNewDrafter(part: Part, known: DeviceStream): Promise<readonly DraftedToken[]> {
  const drafter = adapterDrafter(part, head, greedy)
  try {
    return await next(drafter, known)
  } finally {
    drafter.release()
  }
}

function expectSame(actual: readonly DraftedToken[], expected: readonly DraftedToken[]): void {
  expect(actual.map(({ token }) => token)).toEqual(expected.map(({ token }) => token))
  for (const [at, { topProbability: probability }] of actual.entries())
    expect(Math.abs(probability - expected[at]!.topProbability)).toBeLessThan(tolerance)
}

describe('an adapter with features', () => {
  it('reads the previous deep state, zeros where it is unknown, and its own state after drafted tokens', async () => {
    using stream = await verifiedStream(model, randomIds(9))
    const { known } = stream
    const adapter = model.part('adapter')
    const drafter = adapterDrafter(adapter, head, greedy)
    await stream.feed([5])
    await stream.verify(10)
    await stream.feed([17])
    // Rows 0 to 8 read zeros, rows 9 and 10 the deep states of rows 8 and 9.
    const features = rowsBefore(known.deep, 11)
    const expected = await freshRows(adapter, known.shallow.slice(0, 11), features)
    expectSame(await next(drafter, known), [await drafted(expected)])

    await stream.feed([40])
    const predicted = concatStates([features, sliceStates(expected, 10, 11)], known.shallow.width)
    const afterDraft = await freshRows(adapter, known.shallow.slice(0, 12), predicted)
    const second = await next(drafter, known)
    expectSame(second, [await drafted(afterDraft)])

    // Zeros instead would give another result.
    const zeros = { rows: 1, width: known.shallow.width, half: new Uint16Array(known.shallow.width) }
    const withZeros = await freshRows(adapter, known.shallow.slice(0, 12), concatStates([features, zeros], zeros.width))
    expect(Math.abs((await drafted(withZeros)).topProbability - second[0]!.topProbability)).toBeGreaterThan(10 * tolerance)
    drafter.release()
  })
})

describe.each(['adapter', 'adapter-paper'] as const)('drafting with %s', (name) => {
  it('guesses after any drafts and rollbacks what a new drafter guesses', async () => {
    const part = model.part(name)
    for (let at = 0; at < 6; at++) {
      const drafter = adapterDrafter(part, head, greedy)
      const prompt = randomIds(1 + Math.floor(random.next() * 20))
      using stream = await verifiedStream(model, prompt, (known) => drafter.catchUp(known))
      for (let round = 0; round < 8; round++) {
        const { length: start } = stream.known.ids
        // The pending token, and possibly tokens of another drafter.
        await stream.feed(randomIds(1 + Math.floor(random.next() * 3)))
        const length = Math.floor(random.next() * 5)
        for (let drafts = 0; drafts < length; drafts++) {
          expectSame(await next(drafter, stream.known), await guessOfNewDrafter(part, stream.known))
          await stream.feed(randomIds(1 + Math.floor(random.next() * 3)))
        }
        const { length: sent } = stream.known.ids
        const kept = start + 1 + Math.floor(random.next() * (sent - start))
        await stream.verify(kept)
        // If all tokens were accepted, no row is dropped.
        if (kept < sent) drafter.gather(kept, [])
      }
      drafter.release()
    }
  })

  it("samples with the LLM's noise for the drafted position", async () => {
    const part = model.part(name)
    for (let seed = 0; seed < 8; seed++) {
      const sampling = { temperature: 3, topK: 0, topP: 1, seed }
      const drafter = adapterDrafter(part, head, sampling)
      using stream = await verifiedStream(model, randomIds(5))
      await stream.feed(randomIds(1))
      const { shallow, deep } = stream.known
      const features = name === 'adapter' ? rowsBefore(deep, 6) : undefined
      const states = await freshRows(part, shallow.slice(0, 6), features)
      expectSame(await next(drafter, stream.known), [await drafted(states, sampling, 6)])
      drafter.release()
    }
  })

  it('is named in the error if it returns NaN', async () => {
    const returns = (states: States): States => ({ ...states, half: states.half.map(() => 0x7e00) })
    const drafter = adapterDrafter(alteredPart(model.part(name), { returns }), head, greedy)
    using stream = await verifiedStream(model, randomIds(3))
    await stream.feed([3])
    await expect(next(drafter, stream.known)).rejects.toMatchObject({
      code: 'RUNTIME_FAILED',
      message: expect.stringContaining(`"${name}"`),
    })
    drafter.release()
  })

  it('computes each row of the prompt once, and frees its KV', async () => {
    let rows = 0
    const part = alteredPart(model.part(name), {
      before: ([item]) => {
        if (item && 'states' in item) rows += item.states.rows
      },
    })
    const drafter = adapterDrafter(part, head, greedy)
    using stream = await verifiedStream(model, randomIds(30), (known) => drafter.catchUp(known))
    expect(rows).toBe(30)
    await stream.feed([3])
    await next(drafter, stream.known)
    expect(rows).toBe(31)
    expect(part.usedBytes()).toBeGreaterThan(0)
    drafter.release()
    expect(part.usedBytes()).toBe(0)
  })
})
