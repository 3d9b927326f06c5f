import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { deviceTopic } from '../../core/wire/protocol/topics.ts'
import { mqttClient } from '../support/broker.ts'
import type { DeviceRun } from '../support/expanding-device.ts'
import { answerOf, fullAnswer, lines, type UpstreamReply } from '../support/instructed-upstream.ts'
import { finish, piece, startStream } from '../support/scripted-upstream.ts'
import { shared } from '../support/shared.ts'
import { type Asked, startSketchingBridge } from '../support/sketching-bridge.ts'

const user = (content: string) => ({ messages: [{ role: 'user', content }] })
const limits = {
  sketchS: 1.5,
  expansionS: 20,
  expansionAttempts: 2,
  expansionDeviceWaitS: 0.2,
  upstreamRetries: 0,
}

const world = shared(() => startSketchingBridge((asked) => reply(asked), { limits }))
let reply: (asked: Asked) => UpstreamReply | undefined
/** One bridge for all faults: what one answer meets must not harm the next. */

const usual = () => undefined
const all = (run: DeviceRun) => run.succeed()
const by = (writer: string, of = lines) =>
  answerOf(
    of.map(() => writer),
    of,
  )

/** Sends text, and then nothing. */
const stalling = (text: string) => (response: Parameters<typeof startStream>[0]) => startStream(response, piece(text))
/** Sends text, and then closes the connection. */
const breakingOff = (text: string) => (response: Parameters<typeof startStream>[0]) => {
  startStream(response, piece(text))
  response.end()
}

describe('a question', () => {
  beforeAll(async () => {
    reply = usual
    await world.device('asked', all)
  })
  afterAll(() => world.remove('asked'))

  it.each([
    ['that is empty', user('')],
    ['of white space', user(' \n\t ')],
    ['of placeholders', user('{sketch} {line} {words} {level}')],
    ['with marks of reasoning and code', user('<think>How</think> do I ```bake')],
    ['with half a character', user('\ud800 bread')],
    ['after an empty answer', { messages: [...user('x').messages, { role: 'assistant', content: '' }] }],
  ])('%s is sketched as any other', async (_, body) => {
    expect(await world.ask(body)).toMatchObject({ status: 200, text: by('asked') })
  })

  it('larger than devices get it is answered in full, and one that is larger than allowed is refused', async () => {
    expect(await world.ask(user('bread '.repeat(10_000)))).toMatchObject({ text: fullAnswer, pice: { reason: 'conversation' } })
    expect(await world.ask(user('bread '.repeat(400_000)))).toMatchObject({ status: 400, error: { code: 'REQUEST_INVALID' } })
  })

  it.each(['quick', '', 1, ['sketch']])('with the mode %j is refused by name', async (mode) => {
    expect(await world.ask({ brim: { mode } })).toMatchObject({ status: 400, error: { param: 'brim.mode' } })
  })
})

describe('a model', () => {
  beforeAll(() => world.device('written', all))
  afterAll(() => world.remove('written'))

  it.each<[string, UpstreamReply]>([
    ['in words', 'It depends.'],
    ['that is empty', ''],
    ['below zero', '-5'],
    ['of a thousand digits', '9'.repeat(1_000)],
    ['without an end', 'many '.repeat(2_000)],
    ['that stalls', stalling('about')],
    ['that breaks off', breakingOff('1')],
    ['that fails', (response) => void response.writeHead(500).end()],
  ])('with a foresight %s still sketches', async (_, foresight) => {
    reply = ({ kind }) => (kind === 'foresight' ? foresight : undefined)
    expect(await world.ask()).toMatchObject({ text: by('written'), pice: { mode: 'sketch', foreseenTokens: 200 } })
  })

  let points = 0
  const manyMore: UpstreamReply = (response) => {
    startStream(response, ...Array.from({ length: 300 }, () => piece(`point ${points++}, bread\n`)), finish)
    response.end()
  }
  it.each<[string, UpstreamReply, string]>([
    ['of one word', 'bread', 'sketch-short'],
    ['that is empty', '', 'sketch-short'],
    ['whose sentences do not end', manyMore, 'sketch-long'],
    ['of one sentence again and again', 'flour\n'.repeat(2_000), 'sketch-short'],
    ['of a line without an end', 'flour '.repeat(3_000), 'sketch-long'],
    ['that stalls', stalling('flour and water\nknead'), 'sketch-failed'],
    ['that ends in the middle', breakingOff('flour and water\nknead it well\nbake'), 'sketch-failed'],
    [
      'that is no event of the API',
      (response) => startStream(response, piece('flour\n'), 'data: {"choices": 5}\n\n'),
      'sketch-failed',
    ],
    ['that fails', (response) => void response.writeHead(503).end(), 'sketch-failed'],
  ])('with a sketch %s answers in full', async (_, sketch, reason) => {
    reply = ({ kind }) => (kind === 'sketch' ? sketch : undefined)
    expect(await world.ask()).toMatchObject({ text: fullAnswer, tokens: 3, pice: { reason, expandedSentences: 0 } })
  })

  it('with a sketch of 200 sentences has them all expanded, in their order', async () => {
    const sketch = Array.from({ length: 200 }, (_, at) => `point ${at}, bread`)
    // The plan foresees an answer of so many sentences.
    reply = ({ kind }) => (kind === 'sketch' ? sketch.join('\n') : kind === 'foresight' ? '3000' : undefined)
    expect(await world.ask()).toMatchObject({ text: by('written', sketch), pice: { expandedSentences: 200 } })
  })
})

/** An event in the name of the run. */
const eventOf = ({ bridge, job, attempt }: DeviceRun, n: number, fields: object) =>
  JSON.stringify({ v: 1, bridge, job, attempt, n, at: new Date().toISOString(), ...fields })
const running = [{ type: 'accepted' }, { type: 'running' }]
const sentence = {
  type: 'sentence',
  sketch: 0,
  sentence: 0,
  candidate: 0,
  model: 'slm',
  text: 'x',
  tokens: 1,
  meanLog2Probability: -1,
}
const result = (fields: object) => ({
  type: 'succeeded',
  result: { sentences: lines.map((_, at) => ({ ...sentence, sentence: at, ...fields })), runs: [] },
})

describe('a device', () => {
  beforeAll(() => {
    reply = usual
  })
  /** An answer that is expanded by such a device. */
  async function askWith(id: string, onRun: (run: DeviceRun) => unknown) {
    await world.device(id, onRun)
    const answer = await world.ask()
    await world.remove(id)
    return answer
  }

  it('that sends anything else than an event changes nothing', async () => {
    const answer = await askWith('babbling', async (run) => {
      const wrong = [
        { tokens: -1 },
        { tokens: 1e15 },
        { text: 5 },
        { meanLog2Probability: 1 },
        { candidate: 9 },
        { model: '' },
        { n: 0 },
      ]
      const events = wrong.map((fields) => eventOf(run, 1, { ...sentence, text: 'FORGED', ...fields }))
      await run.publish('', '{', '['.repeat(10_000), 'null', '\u0000\ud800', ...events)
      await run.succeed()
    })
    expect(answer).toMatchObject({ text: by('babbling'), pice: { expandedSentences: 3 } })
  })

  it('cannot write into the job of another one', async () => {
    const thief = await mqttClient(world.bridge.mqttUrl, 'device-thief')
    const answer = await askWith('honest', async (run) => {
      await run.report(...running)
      const forged = [{ ...sentence, text: 'FORGED' }, result({ text: 'FORGED' }), { type: 'canceled' }]
      const events = forged.flatMap((event) => [1, 3, 4].map((n) => eventOf(run, n, event)))
      const topic = deviceTopic('default', 'thief', 'events')
      await Promise.all(events.map((event) => thief.publishAsync(topic, event, { qos: 1 })))
      await run.succeed()
    })
    await thief.endAsync(true)
    expect(answer).toMatchObject({ text: by('honest'), pice: { expandedSentences: 3 } })
  })

  it.each<[string, object]>([
    ['a sentence that was not asked for', { ...sentence, sentence: 3 }],
    ['a sentence of another sketch', { ...sentence, sketch: 1 }],
    ['a candidate too many', { ...sentence, candidate: 1 }],
    ['no word', result({ text: ' \n' })],
    ['30,000 characters for a sentence', result({ text: 'x '.repeat(15_000) })],
    ['too few sentences', { type: 'succeeded', result: { sentences: [{ ...sentence, text: 'FORGED' }], runs: [] } }],
  ])('that sends %s is not quoted, and the model answers', async (what, event) => {
    const answer = await askWith(what.replace(/\W/g, '-'), (run) => run.report(...running, event))
    expect(answer).toMatchObject({ text: fullAnswer, pice: { expandedSentences: 0, reason: 'expansion' } })
  })

  it('that sends a megabyte harms no other answer', async () => {
    await world.device('honest', all)
    let floods = 0
    const events = async (run: DeviceRun) => {
      floods += 1
      await run.report(...running, ...Array.from({ length: 40 }, () => ({ ...sentence, text: 'x'.repeat(30_000) })))
    }
    const packet = async (run: DeviceRun) => {
      floods += 1
      await run.publish(eventOf(run, 1, { ...sentence, text: 'x'.repeat(2 ** 20) }))
    }
    for (const [at, flood] of [events, packet].entries()) {
      await world.device(`flooding-${at}`, flood)
      const answers = await Promise.all(Array.from({ length: 3 }, () => world.ask()))
      for (const { text, status } of answers) expect([status, text]).toEqual([200, expect.stringMatching(/^(flour|A full)/)])
      expect(answers.some(({ text }) => text === by('honest'))).toBe(true)
      await world.remove(`flooding-${at}`)
    }
    expect(floods).toBeGreaterThan(0)
    await world.remove('honest')
  })

  it('that says how many tokens it wrote is believed only as far as its text allows', async () => {
    const boast = { text: 'Flour and knead it, bake long.', tokens: 65_536, meanLog2Probability: 0 }
    const { text, tokens } = await askWith('boasting', (run) => run.report(...running, result(boast)))
    expect(text).toBe(Array.from({ length: 3 }, () => boast.text).join(' '))
    expect(tokens).toBeLessThan(3 * boast.text.length + 9)
  })

  it('that comes too late changes nothing', async () => {
    let late: DeviceRun | undefined
    await world.device('late', (run) => {
      late ??= run
      return run.report(...running)
    })
    const byModel = 'flour and water by the model. knead it well by the model. bake for long by the model.'
    const inItsPlace = { reason: 'expansion', expandedSentences: 0, completedSentences: 3 }
    expect(await world.ask()).toMatchObject({ text: byModel, pice: inItsPlace })
    await late!.succeed()
    await world.remove('late')
    expect(await askWith('punctual', all)).toMatchObject({ text: by('punctual') })
  })
})

describe('when all devices are gone in the middle', () => {
  it('every answer has what arrived, and the rest from the model', async () => {
    const ids = ['one', 'two', 'three']
    let begun = 0
    for (const id of ids)
      await world.device(id, async (run) => {
        const first = run.input.sketches.map((_, sketch) => ({ ...sentence, sketch, text: `First flour and water by ${id}.` }))
        await run.report(...running, ...first)
        begun += 1
      })
    const answers = Promise.all(Array.from({ length: 6 }, () => world.ask()))
    await expect.poll(() => begun).toBe(3)
    for (const id of ids) await world.remove(id)
    const all = await answers
    for (const { text } of all)
      expect(
        text === fullAnswer ||
          /^(First flour and water by \w+|flour and water by the model)\. knead it well by the model\. bake for long by the model\.$/.test(
            text,
          ),
      ).toBe(true)
    expect(all.filter(({ pice }) => pice.expandedSentences === 1).length).toBeGreaterThanOrEqual(3)
  })
})
