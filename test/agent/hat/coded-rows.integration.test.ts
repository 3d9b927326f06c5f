import { beforeAll, describe, expect, it } from 'vitest'
import type { DataLink } from '../../../agent/link/data-link.ts'
import type { LinkSession } from '../../../agent/link/link-session.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import { referenceAnswer } from '../../../core/model/engine/reference.ts'
import { type StateCoders, stateCoders } from '../../../core/wire/protocol/row-coder.ts'
import { type States, sliceStates } from '../../../core/wire/protocol/states.ts'
import { ensureDemoBundle } from '../../../lab/cluster/demo-bundles.ts'
import { portOf, startRelay, through } from '../../../lab/cluster/relay.ts'
import { dataLinkTo } from '../../support/data-link.ts'
import { startDataPlane, testModelId } from '../../support/data-plane.ts'
import { startHatWorld } from '../../support/hat-world.ts'
import { scriptedPart } from '../../support/scripted-part.ts'
import { shared } from '../../support/shared.ts'

const never = new AbortController().signal
const sampling = { temperature: 0, topK: 0, topP: 1, seed: 0 }
const world = shared(async () => startHatWorld({ bundle: await ensureDemoBundle() }))
let coders: StateCoders
let modelId: string

beforeAll(async () => {
  coders = stateCoders(world.model.manifest)!
  modelId = world.model.manifest.modelId
})

const randomIds = (count: number, seed: number) => {
  const random = seededRandom(seed)
  return Array.from({ length: count }, () => Math.floor(random.next() * world.model.manifest.dims.vocab))
}
async function shallowOf(ids: readonly number[]): Promise<States> {
  const sequence = world.model.part('input').createSequence()
  const [states] = await world.model.part('input').step([{ sequence, ids, select: 'all' }])
  sequence.release()
  return states!
}
const linkTo = (url = world.bridge.dataUrl): DataLink => dataLinkTo(url, { device: 'coding' })

describe('an answer with coded rows', () => {
  it('has the tokens of the reference, in fewer bytes either way', async () => {
    const prompt = randomIds(60, 1)
    // Padded verifications have one of two lengths, by the link.
    const plain = await world.answer({ prompt, maxTokens: 24 }, { padding: false })
    const coded = await world.answer({ prompt, maxTokens: 24 }, { padding: false, coders })
    expect(coded.tokens).toEqual(await referenceAnswer(world.chain, prompt, sampling, 24, []))
    expect([plain.figures.wire, coded.figures.wire]).toEqual(['fp16', 'fp16c'])
    // Of so narrow a model the slack of each frame is large beside its rows.
    expect(coded.figures.bytesUp / plain.figures.bytesUp).toBeLessThan(0.95)
    expect(coded.figures.bytesDown / plain.figures.bytesDown).toBeLessThan(0.95)
  })

  it('goes on with the same tokens when its session is lost', async () => {
    await using relay = await startRelay(portOf(world.bridge.dataUrl))
    const link = linkTo(through(relay, world.bridge.dataUrl))
    const prompt = randomIds(40, 2)
    let exchanges = 0
    const { tokens, figures } = await world.answer(
      { prompt, maxTokens: 24 },
      {
        coders,
        async open(signal, options) {
          const session = await link.open(modelId, signal, options)
          const exchange = session.exchange.bind(session)
          session.exchange = (base, rows, want, form) => {
            if (++exchanges === 4) relay.cut()
            return exchange(base, rows, want, form)
          }
          return session
        },
      },
    )
    await link.close()
    expect(figures.failovers).toBe(1)
    expect(tokens).toEqual(await referenceAnswer(world.chain, prompt, sampling, 24, []))
  })
})

describe('on an encrypted link, of which an observer sees lengths', () => {
  /** Bytes of each exchange, either way, of the first rows of these tokens in the shapes that answers have. */
  async function lengthsOf(ids: readonly number[]): Promise<number[][]> {
    const link = linkTo()
    const states = await shallowOf(ids)
    const shapes = [
      { rows: 32, want: 0 },
      { rows: 7, want: 1 },
      { rows: 1, want: 1, paddedRows: 9 },
      { rows: 4, want: 4, paddedRows: 9 },
      { rows: 9, want: 9, paddedRows: 9 },
      { rows: 1, want: 1 },
    ]
    const session = await link.open(modelId, never, { coders })
    const lengths: number[][] = []
    let base = 0
    for (const { rows, want, paddedRows } of shapes) {
      const before = [session.bytesUp, session.bytesDown] as const
      const reply = await session.exchange(base, sliceStates(states, base, base + rows), want, { paddedRows })
      expect(reply.kind).toBe('deep')
      lengths.push([session.bytesUp - before[0], session.bytesDown - before[1]])
      base += rows
    }
    expect(session.wire).toBe('fp16c')
    session.close()
    await link.close()
    return lengths
  }

  it('the lengths of coded frames are the same whatever was asked', async () => {
    const lengths = await lengthsOf(randomIds(54, 3))
    const repeated = Array.from({ length: 54 }, (_, i) => 1_000 + (i % 2))
    for (const ids of [randomIds(54, 4), randomIds(54, 5), repeated, Array(54).fill(17)])
      expect(await lengthsOf(ids)).toEqual(lengths)
    // Three verifications of one padded length, shorter than as fp16.
    const verifications = lengths.slice(2, 5).map(([up, down]) => `${up} ${down}`)
    expect(new Set(verifications).size).toBe(1)
    expect(lengths[2]![0]).toBeLessThan(0.95 * 9 * 2 * world.model.manifest.dims.hidden)
  })

  it('rows that do not fit show once: no later rows of the connection are coded', async () => {
    const link = linkTo()
    const [first, second] = [await link.open(modelId, never, { coders }), await link.open(modelId, never, { coders })]
    const { width } = await shallowOf([1])
    // Finite values that no model has.
    const rare = { rows: 2, width, half: Uint16Array.from({ length: 2 * width }, (_, i) => (i * 12_345) & 0x3fff) }
    const usual = await shallowOf(randomIds(8, 6))
    const bytesOf = async (session: LinkSession, states: States) => {
      const before = session.bytesUp
      await session.exchange(0, states, 0)
      return session.bytesUp - before
    }
    const coded = await bytesOf(second, usual)
    expect([first.wire, second.wire]).toEqual(['fp16c', 'fp16c'])
    expect(await bytesOf(first, rare)).toBeGreaterThan(2 * 2 * width)
    const plain = await bytesOf(second, usual)
    expect(coded / plain).toBeLessThan(0.9)
    expect([first.wire, second.wire, (await link.open(modelId, never, { coders })).wire]).toEqual(['fp16', 'fp16', 'fp16'])
    await link.close()
    const another = linkTo()
    expect((await another.open(modelId, never, { coders })).wire).toBe('fp16c')
    await another.close()
  })
})

describe('a device with tables', () => {
  it('sends fp16 to a bridge that has others, or none', async () => {
    await using plane = await startDataPlane(scriptedPart())
    const link = linkTo(plane.dataUrl)
    expect((await link.open(testModelId, never, { coders })).wire).toBe('fp16')
    expect((await link.open(testModelId, never, { coders, wire: 'int8' })).wire).toBe('int8')
    await link.close()
    const here = linkTo()
    expect((await here.open(modelId, never, { coders: { ...coders, id: 'f'.repeat(64) } })).wire).toBe('fp16')
    await here.close()
  })
})
