import { describe, expect, it } from 'vitest'
import type { Expanded, ExpansionRequest } from '../../../cloud-bridge/pice/expander.ts'
import type { TextDelta } from '../../../core/answer/endpoint/endpoint.ts'
import { Prompt } from '../../../core/answer/endpoint/prompt.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { confidence } from '../../../core/policy/pice/confidence.ts'
import type { AnswerPlan } from '../../../core/policy/pice/plan-answer.ts'
import {
  ask,
  collect,
  expandedBy,
  failed,
  isRest,
  lines,
  never,
  planned,
  plans,
  requestOf,
  sketchPlan,
  texts,
  wellBehaved,
  whole,
  world,
} from '../../support/pice-world.ts'
import type { Call, Reply } from '../../support/scripted-llm.ts'

describe('a sketched answer', () => {
  it('shows the sketch, then each sentence in its order, and says what is left', async () => {
    const w = world({
      async *expand() {
        for (const sentence of [2, 0, 1]) yield expandedBy(`d${sentence}`, sentence)
      },
    })
    const { text, end, deltas, figures } = await ask(w)
    expect([text, end]).toEqual([texts.join(' '), 'stop'])
    expect(deltas.filter(({ tokenCount }) => tokenCount > 0).map(({ source }) => source.device)).toEqual(['d0', 'd1', 'd2'])
    expect(deltas.map(({ sketch }) => sketch?.length)).toEqual([2, 3, 2, 1, 0, 0])
    expect(figures).toMatchObject({
      mode: 'sketch',
      reason: null,
      level: 1,
      foreseenTokens: 120,
      fullS: 10,
      predictedS: 5,
      sketchLines: 3,
      completedSentences: 0,
      cloudTokens: 3,
      edgeTokens: 18,
    })
    expect(figures.confidence).toBeGreaterThan(0)
    expect(w.requests[0]?.input).toMatchObject({ sketch: lines, sentences: [0, 1, 2], expectedTokens: 120, candidates: 1 })
    // Eq. 3 of each sentence with its own line and its part of the expected length.
    const eq3 = (text: string, at: number) => confidence({ text, tokens: 6, meanLog2Probability: -1 }, lines[at]!, 40)
    expect(w.judged.toSorted()).toEqual(texts.map(eq3).toSorted())
  })

  it('has the most confident of several candidates', async () => {
    const w = world({
      candidates: 2,
      async *expand() {
        for (const sentence of [0, 1, 2]) {
          yield expandedBy('bad', sentence, { text: 'Nothing.', meanLog2Probability: -9 })
          yield expandedBy('good', sentence, { candidate: 1 })
        }
      },
    })
    const { text, figures } = await ask(w)
    expect(text).toBe(texts.join(' '))
    expect(figures.edgeTokens).toBe(36)
    // Those that lost tell of their model, too.
    expect(w.judged).toHaveLength(6)
    expect(w.judged[0]).toBeLessThan(w.judged[1]!)
    expect(figures.confidence).toBeCloseTo((w.judged[1]! + w.judged[3]! + w.judged[5]!) / 3)
  })

  it('has the likelier of two candidates that both say their line', async () => {
    const other = (sentence: number) => texts[sentence]!.replace('.', ', now.')
    const w = world({
      candidates: 2,
      async *expand() {
        for (const sentence of [0, 1, 2]) {
          yield expandedBy('sure', sentence, { text: other(sentence), meanLog2Probability: -0.1 })
          yield expandedBy('unsure', sentence, { candidate: 1, meanLog2Probability: -3 })
        }
      },
    })
    const { text, figures } = await ask(w)
    expect(text).toBe(texts.map((_, at) => other(at)).join(' '))
    expect(figures).toMatchObject({ expandedSentences: 3, completedSentences: 0 })
  })

  it('has no sentence that says nothing of its line: the LLM writes it', async () => {
    const w = world({
      async *expand() {
        for (const sentence of [0, 1]) yield expandedBy('d', sentence)
        yield expandedBy('bad', 2, { text: 'Nothing at all.', tokens: 3, meanLog2Probability: -9 })
      },
    })
    const { text, figures } = await ask(w)
    expect(text).not.toContain('Nothing at all')
    expect(figures).toMatchObject({ expandedSentences: 2, completedSentences: 1 })
    expect(Math.min(...w.judged)).toBeLessThan(0.1)
  })

  it('has the LLM write a line that a device has not said, while devices write others', async () => {
    const w = world({
      async *expand() {
        yield expandedBy('d', 0)
        yield expandedBy('bad', 1, { text: 'Nothing at all.', tokens: 3, meanLog2Probability: -9 })
        await expect.poll(() => w.calls.some(({ instruction }) => instruction.endsWith(`Write:\n${lines[1]}`))).toBe(true)
        yield expandedBy('d', 2)
      },
    })
    const { text, figures } = await ask(w)
    expect(text).toBe(texts.join(' '))
    expect(figures).toMatchObject({ expandedSentences: 2, completedSentences: 1 })
  })

  it('says once what the LLM writes for several lines', async () => {
    const w = world({
      reply: (call) => (call.instruction.includes('Write:') ? { pieces: ['It is all the same.'] } : wellBehaved(call)),
      async *expand() {
        yield expandedBy('d', 0)
        throw failed()
      },
    })
    const { text, end, deltas } = await ask(w)
    expect([text, end]).toEqual([`${texts[0]} It is all the same.`, 'stop'])
    expect(deltas.at(-1)!.sketch).toEqual([])
  })

  it('has no fluent sentence about something else, and takes the other candidate for its line', async () => {
    const fluent = { text: 'In summer you should rest in the shade.', tokens: 9, meanLog2Probability: -0.01 }
    const w = world({
      candidates: 2,
      async *expand() {
        for (const sentence of [0, 1, 2]) {
          yield expandedBy('fluent', sentence, fluent)
          if (sentence < 2) yield expandedBy('good', sentence, { candidate: 1, meanLog2Probability: -6 })
        }
      },
    })
    const { text, figures } = await ask(w)
    expect(text).not.toContain(fluent.text)
    expect(figures).toMatchObject({ expandedSentences: 2, completedSentences: 1 })
  })

  it('gets from the LLM what no device has written, and keeps what has arrived', async () => {
    const w = world({
      async *expand() {
        yield expandedBy('d', 2)
        yield expandedBy('d', 0)
        throw failed()
      },
    })
    const { text, deltas, figures } = await ask(w)
    expect(text).toBe(texts.join(' '))
    expect(deltas.filter(({ tokenCount }) => tokenCount > 0).map(({ source }) => source.kind)).toEqual([
      'device',
      'upstream',
      'device',
    ])
    expect(figures).toMatchObject({ mode: 'sketch', reason: 'expansion', completedSentences: 1 })
    expect(w.calls.at(-1)?.instruction).toContain('Write:\ndog, garden')
  })

  it('takes one candidate where the others did not come', async () => {
    const w = world({
      candidates: 3,
      async *expand() {
        for (const sentence of [0, 1, 2]) yield expandedBy('d', sentence)
        throw failed()
      },
    })
    expect(await ask(w)).toMatchObject({ text: texts.join(' '), figures: { completedSentences: 0 } })
  })

  it('takes no empty text of a device', async () => {
    const w = world({
      async *expand() {
        yield expandedBy('d', 0)
        yield expandedBy('d', 1, { text: ' \n' })
        yield expandedBy('d', 2)
      },
    })
    expect(await ask(w)).toMatchObject({ text: texts.join(' '), figures: { completedSentences: 1 } })
    expect(w.judged.filter((confidence) => confidence === 0)).toHaveLength(1)
  })

  describe('whose sketch goes on while devices are idle', () => {
    const inPieces = (call: Call): Reply =>
      call.instruction.startsWith('Sketch ') ? { pieces: lines.map((line) => `${line}\n`) } : wellBehaved(call)

    it('gives its first lines to a device before the last is written', async () => {
      const sketched: number[] = []
      const w = world({
        reply: inPieces,
        idleDevices: 2,
        async *expand({ input }) {
          sketched.push(input.sketch.length)
          for (const sentence of input.sentences!) yield expandedBy('d', sentence)
        },
      })
      expect(await ask(w)).toMatchObject({ text: texts.join(' '), figures: { expandedSentences: 3, completedSentences: 0 } })
      expect(sketched).toEqual([2, 3])
      const [early, rest] = w.requests
      expect([early!.input.sentences, rest!.input.sentences]).toEqual([[0, 1], [2]])
      expect(early!.id).toBe(`${rest!.id}/1`)
      // Two of twelve tokens were written.
      expect([early!.input.expectedTokens, rest!.input.expectedTokens]).toEqual([20, 120])
    })

    const four = [...lines, 'wind, night']
    const fourTexts = [...texts, 'The wind blows at night.']
    const written = (sentence: number) => expandedBy('d', sentence, { text: fourTexts[sentence]! })
    const fourInPieces = (call: Call): Reply =>
      call.instruction.startsWith('Sketch ') ? { pieces: four.map((line) => `${line}\n`) } : wellBehaved(call)
    async function* expandAll({ input }: ExpansionRequest): AsyncGenerator<Expanded, void> {
      for (const sentence of input.sentences!) yield written(sentence)
    }

    it('sends the text of its first lines before the last is written, and each sentence once', async () => {
      const w = world({ reply: fourInPieces, idleDevices: 2, expand: expandAll })
      const { text, deltas, figures } = await collect(w.pice.answer(requestOf(), never) as AsyncGenerator<TextDelta>)
      expect(text).toBe(fourTexts.join(' '))
      const first = deltas.findIndex((delta) => delta.text !== '')
      const last = deltas.findLastIndex((delta) => delta.sketch?.includes(four[3]!) && delta.text === '')
      expect(first).toBeGreaterThan(0)
      expect(first).toBeLessThan(last)
      // Lines whose text is there are none of the sketch that the client still waits for.
      expect(deltas[last]!.sketch).not.toContain(four[0])
      expect(figures).toMatchObject({ sketchLines: 4, expandedSentences: 4, completedSentences: 0 })
      expect(w.judged).toHaveLength(4)
    })

    it('keeps what it has sent where the sketch does not end, or the LLM fails', async () => {
      for (const end of [{ end: 'length' as const }, { error: failed() }]) {
        const reply = (call: Call): Reply =>
          call.instruction.startsWith('Sketch ') ? { ...fourInPieces(call), ...end } : wellBehaved(call)
        const w = world({ reply, idleDevices: 2, expand: expandAll })
        const { text, end: ended } = await ask(w)
        expect(text).toBe(fourTexts.join(' '))
        expect(ended).toBe('stop')
      }
    })

    it('waits for the whole sketch where the request’s form may change its lines', async () => {
      for (const question of ['Where? Give me a numbered list.', 'Where? Use bullet points.']) {
        const w = world({ reply: fourInPieces, idleDevices: 2, expand: expandAll })
        const { deltas } = await collect(w.pice.answer(requestOf({}, question), never) as AsyncGenerator<TextDelta>)
        const first = deltas.findIndex((delta) => delta.text !== '')
        expect(deltas.slice(first).some((delta) => delta.text === '' && delta.sketch?.includes(four[3]!))).toBe(false)
      }
    })

    it('leaves a first line whose text says nothing of it to the LLM, and sends nothing before', async () => {
      const w = world({
        reply: fourInPieces,
        idleDevices: 2,
        async *expand({ input }) {
          for (const sentence of input.sentences!) yield sentence === 0 ? expandedBy('d', 0, { text: '' }) : written(sentence)
        },
      })
      const { text, figures } = await ask(w)
      expect(text).toBe(fourTexts.join(' '))
      expect(figures).toMatchObject({ completedSentences: 1, expandedSentences: 3 })
    })

    it('asks again for what a device has failed to write before the sketch was complete', async () => {
      const w = world({
        reply: inPieces,
        idleDevices: 2,
        async *expand({ id, input }) {
          yield expandedBy('d', input.sentences![0]!)
          if (id.endsWith('/1')) throw failed()
          for (const sentence of input.sentences!.slice(1)) yield expandedBy('d', sentence)
        },
      })
      expect(await ask(w)).toMatchObject({ text: texts.join(' '), figures: { expandedSentences: 3 } })
      expect(w.requests.map(({ input }) => input.sentences)).toEqual([
        [0, 1],
        [1, 2],
      ])
    })

    it('stops the device where the sketch comes to nothing', async () => {
      const stopped: boolean[] = []
      const w = world({
        idleDevices: 2,
        reply: (call) => (call.instruction.startsWith('Sketch ') ? { ...inPieces(call), end: 'length' } : wellBehaved(call)),
        async *expand(_, signal) {
          await new Promise((end) => signal.addEventListener('abort', end))
          stopped.push(signal.aborted)
          throw failed()
        },
      })
      expect(await ask(w)).toMatchObject({ text: whole, figures: { reason: 'sketch-long' } })
      expect(stopped).toEqual([true])
    })

    it.each([
      ['one device is idle', { idleDevices: 1 }, 'Where?'],
      [
        'the sketch is nearly written',
        { idleDevices: 2, plan: { ...sketchPlan, sketchS: 0.3 } as unknown as AnswerPlan },
        'Where?',
      ],
      ['the request wants no lists, so that lines may go', { idleDevices: 2 }, 'Where? No lists.'],
    ])('goes out in one piece where %s', async (_, options, question) => {
      const w = world({ reply: inPieces, ...options })
      await collect(w.pice.answer(requestOf({}, question), never) as AsyncGenerator<TextDelta>)
      expect(w.requests.map(({ input }) => input.sentences)).toEqual([[0, 1, 2]])
    })
  })

  it('has no sentence that was cut: it is trimmed to its last full stop, or written by the LLM', async () => {
    const w = world({
      async *expand() {
        yield expandedBy('d', 0, { text: `${texts[0]} And then the`, end: 'length' })
        yield expandedBy('d', 1, { text: 'The dog is in the', end: 'length' })
        yield expandedBy('d', 2, { text: texts[2]!, end: 'stop' })
      },
    })
    expect(await ask(w)).toMatchObject({ text: texts.join(' '), figures: { expandedSentences: 2, completedSentences: 1 } })
  })

  it('has no cut sentence of the LLM either: it is written again, and else the line of the sketch', async () => {
    for (const [replies, wanted] of [
      [['The dog is', texts[1]!], texts[1]],
      [['The dog is', 'The dog is in'], lines[1]],
    ] as const) {
      const left = [...replies]
      const w = world({
        async *expand() {
          yield expandedBy('d', 0)
          yield expandedBy('d', 2)
          throw failed()
        },
        reply: (call) => {
          if (!call.instruction.includes('Write:')) return wellBehaved(call)
          const text = left.shift()!
          return { pieces: [text], end: text === texts[1] ? 'stop' : 'length' }
        },
      })
      expect((await ask(w)).text).toBe([texts[0], wanted, texts[2]].join(' '))
    }
  })

  it('keeps the form of its sketch, of which devices get the key words', async () => {
    const sketch = `# Where\n1. **Keys:** ${lines[0]}\n2. ${lines[1]}\n\n| rain | evening |\n\n${lines[2]}`
    const w = world({
      reply: (call) => (call.instruction.startsWith('Sketch ') ? { pieces: [sketch] } : wellBehaved(call)),
      async *expand({ input }) {
        for (const at of input.sentences!) yield expandedBy('d', at, { text: texts[input.sentences!.indexOf(at)]! })
      },
    })
    const { text, figures } = await ask(w)
    expect(text).toBe(`# Where\n\n1. **Keys:** ${texts[0]}\n2. ${texts[1]}\n\n| rain | evening |\n\n${texts[2]}`)
    const asked = ['Where', `Keys: ${lines[0]}`, lines[1], '| rain | evening |', lines[2]]
    expect(w.requests[0]?.input).toMatchObject({ sketch: asked, sentences: [1, 2, 4] })
    expect(figures).toMatchObject({ sketchLines: 5, expandedSentences: 3, completedSentences: 2, reason: null })
  })

  it.each([
    ['fails', failed()],
    ['is refused', new BrimError('QUEUE_FULL', 'full')],
    ['ends by a mistake', new TypeError('x')],
  ])('is answered in full by the LLM when all expansion %s, and the sketch goes away', async (_, error) => {
    const w = world({
      async *expand() {
        yield await Promise.reject(error)
      },
    })
    const { text, deltas, figures } = await ask(w)
    expect([text, deltas.findLast(({ sketch }) => sketch)?.sketch]).toEqual([whole, []])
    expect(figures).toMatchObject({ mode: 'sketch', reason: 'expansion', confidence: null })
  })

  it('is counted by the plans of others while its sketch is written', async () => {
    const w = world()
    const waiting = []
    for await (const { sketch } of w.pice.answer(requestOf(), never) as AsyncGenerator<TextDelta>)
      if (sketch) waiting.push(await planned(w))
    const written = [{ id: expect.any(String), expectedTokens: 120, waitedS: 0, arrivesInS: 2 }]
    // Two events of the sketch, three sentences, the end.
    expect(waiting).toEqual([written, written, ...Array(4).fill([])])
  })

  it('ends before the sentence that max_tokens does not allow', async () => {
    const w = world()
    expect(await ask(w, { maxTokens: 130 })).toMatchObject({ text: texts.join(' '), end: 'stop' })
    const cut = world({ reply: (call) => (call.instruction === 'How long?' ? { pieces: ['10'] } : wellBehaved(call)) })
    expect(await ask(cut, { maxTokens: 13 })).toMatchObject({ text: texts.slice(0, 2).join(' '), end: 'length' })
  })

  it('passes the sampling on, and its own length of time', async () => {
    const w = world()
    await ask(w, { sampling: { temperature: 0.7, topP: 0.9, topK: 5, seed: 3 } })
    expect(w.requests[0]).toMatchObject({
      input: { temperature: 0.7, topP: 0.9, topK: 5, seed: 3, budgetMs: 10_000 },
      // Three sentences by the LLM take the rest of f(l).
      deadlineMs: expect.closeTo(3_150),
    })
    const begun = w.pice.answer(requestOf(), never)
    await begun.next()
    await w.clock.advance(4_000)
    for await (const _ of begun);
    expect(w.requests[1]).toMatchObject({ input: { budgetMs: 6_000 }, deadlineMs: 3_000 })
    expect(w.calls[0]?.request.sampling.temperature).toBe(0)
  })

  it('stops expanding when the client leaves', async () => {
    let ended = false
    const w = world({
      async *expand() {
        try {
          for (const sentence of [0, 1, 2]) yield expandedBy('d', sentence)
        } finally {
          ended = true
        }
      },
    })
    for await (const { text } of w.pice.answer(requestOf(), never) as AsyncGenerator<TextDelta>) if (text !== '') break
    expect(ended).toBe(true)
    expect(w.ended).toHaveLength(1)
  })
})

describe('a full answer', () => {
  it.each([
    ['the plan finds no time', {}, { plan: plans.full }, 'latency', 1],
    ['the question does not suit', {}, { suits: false }, 'unsuitable', 1],
    [
      'the conversation is too large for a small model',
      { prompt: requestOf({}, 'x'.repeat(33_000)).prompt },
      {},
      'conversation',
      1,
    ],
    [
      'a tool took part',
      { prompt: new Prompt({ kind: 'chat', messages: [{ role: 'tool', content: '5' }] }) },
      {},
      'conversation',
      1,
    ],
    ['the client wants less than is foreseen', { maxTokens: 100 }, {}, 'max-tokens', 2],
  ] as const)('is given where %s', async (_, request, options, reason, calls) => {
    const w = world(options)
    const { text, figures } = await ask(w, request)
    expect([text, figures.mode, figures.reason]).toEqual([whole, 'full', reason])
    expect(w.calls).toHaveLength(calls)
  })

  it.each(['a few hundred', '', '-5', '99999999999'])('is given where the model foresees "%s"', async (foreseen) => {
    const w = world({ reply: (call) => (call.instruction === 'How long?' ? { pieces: [foreseen] } : wellBehaved(call)) })
    expect(await ask(w)).toMatchObject({ text: whole, figures: { mode: 'full', reason: 'foresight' } })
    expect(await ask(w, { mode: 'sketch' })).toMatchObject({ text: texts.join(' '), figures: { mode: 'sketch' } })
  })

  it.each([
    ['of one word', { pieces: ['keys'] }, 'sketch-short'],
    ['without a letter', { pieces: ['...\n\n---\n'] }, 'sketch-short'],
    ['that is cut off', { pieces: ['a b\nc d\n', 'e'], end: 'length' }, 'sketch-long'],
    ['of 400 lines', { pieces: Array.from({ length: 400 }, (_, at) => `line ${at}\n`) }, 'sketch-long'],
    ['whose server fails', { pieces: ['a b\nc d\n'], error: new BrimError('UPSTREAM_FAILED', 'gone') }, 'sketch-failed'],
  ] as const)('follows a sketch %s', async (_, sketch, reason) => {
    const w = world({ reply: (call) => (call.instruction.startsWith('Sketch ') ? (sketch as Reply) : wellBehaved(call)) })
    const { text, figures, end } = await ask(w)
    expect([text, end, figures.reason]).toEqual([whole, 'stop', reason])
    expect(w.requests).toEqual([])
  })

  it('is not needed where a sketch is cut: the rest is asked for, and what was cut is dropped', async () => {
    const cut = { pieces: [`${lines[0]}\n`, `${lines[1]}\nrain, ev`], end: 'length' } as const
    const asked: Call[] = []
    const w = world({
      sketchNext: 'Go on.',
      reply: (call) => {
        if (call.instruction.startsWith('Sketch ')) return cut
        if (isRest(call)) {
          asked.push(call)
          return { pieces: [`Here is the rest of the sketch:\n${lines[2]}`] }
        }
        return wellBehaved(call)
      },
    })
    expect(await ask(w)).toMatchObject({ text: texts.join(' '), figures: { sketchLines: 3, sketchTokens: 3 } })
    const { messages } = asked[0]!.request.prompt.asText() as { messages: readonly { role: string; content: string }[] }
    expect(messages.slice(1)).toEqual([
      { role: 'assistant', content: lines.slice(0, 2).join('\n') },
      { role: 'user', content: 'Go on.' },
    ])
    // One that never ends is given up.
    const endless = world({
      sketchNext: 'Go on.',
      reply: (call) => {
        if (isRest(call)) return { pieces: [`line ${w.calls.length + endless.calls.length}\nand`], end: 'length' }
        return call.instruction.startsWith('Sketch ') ? cut : wellBehaved(call)
      },
    })
    expect(await ask(endless)).toMatchObject({ text: whole, figures: { reason: 'sketch-long' } })
    expect(endless.calls.filter(isRest)).toHaveLength(2)
  })

  it('is not needed where a sketch loops: its lines count once, and the model is stopped', async () => {
    const loop = Array.from({ length: 50 }, () => `${lines.join('\n')}\n`)
    const w = world({ reply: (call) => (call.instruction.startsWith('Sketch ') ? { pieces: loop } : wellBehaved(call)) })
    const { text, figures } = await ask(w)
    expect([text, figures.sketchLines]).toEqual([texts.join(' '), 3])
    expect(figures.sketchTokens).toBeLessThan(5)
  })

  it('follows a sketch that does not come in time', async () => {
    const w = world({ reply: (call) => (call.instruction.startsWith('Sketch ') ? 'waits' : wellBehaved(call)) })
    const answer = ask(w)
    await new Promise((turn) => setImmediate(turn))
    await w.clock.advance(1_000)
    expect(await answer).toMatchObject({ text: whole, figures: { reason: 'sketch-failed' } })
  })

  it('follows a foresight that does not come in time', async () => {
    const w = world({ reply: (call) => (call.instruction === 'How long?' ? 'waits' : wellBehaved(call)) })
    const answer = ask(w)
    await new Promise((turn) => setImmediate(turn))
    await w.clock.advance(1_000)
    expect(await answer).toMatchObject({ text: whole, figures: { reason: 'foresight' } })
  })

  it('fails as the LLM does, and at once where its queue is full', async () => {
    const busy = world({ reply: () => ({ pieces: [], error: new BrimError('QUEUE_FULL', 'full') }) })
    await expect(ask(busy)).rejects.toMatchObject({ code: 'QUEUE_FULL' })
    expect(busy.calls).toHaveLength(1)
    const broken = world({ reply: () => ({ pieces: [], error: new BrimError('UPSTREAM_FAILED', 'gone') }) })
    await expect(ask(broken)).rejects.toMatchObject({ code: 'UPSTREAM_FAILED' })
  })

  it('is not foreseen where the latest answers were so short that their like are full', async () => {
    const w = world({ policy: ({ expectedTokens }) => (expectedTokens > 60 ? plans.sketch : plans.full) })
    for (let answers = 0; answers < 17; answers++) await ask(w)
    // Sketches count, too: three sentences of six tokens.
    expect(w.calls.filter(({ instruction }) => instruction === 'How long?')).toHaveLength(16)
    expect((await ask(w)).figures).toMatchObject({ mode: 'full', reason: 'latency' })
  })

  it('corrects what the model foresees by how long its answers were', async () => {
    const long = { pieces: Array.from({ length: 240 }, () => 'a ') }
    const reply = (call: Call) => (call.instruction === '' ? long : wellBehaved(call))
    const w = world({ reply, plan: { mode: 'full', reason: 'objectives', fullS: 1 } })
    const foreseen = []
    for (let answers = 0; answers < 9; answers++) foreseen.push((await ask(w)).figures.foreseenTokens)
    expect([foreseen[0], foreseen.at(-1)]).toEqual([120, 240])
    // Answers that were cut off tell nothing.
    const cut = world({
      reply: (call) => ({ ...reply(call), end: 'length' }),
      plan: { mode: 'full', reason: 'objectives', fullS: 1 },
    })
    for (let answers = 0; answers < 9; answers++) expect((await ask(cut)).figures.foreseenTokens).toBe(120)
  })
})

describe('an answer that was interrupted', () => {
  async function interrupted(w: ReturnType<typeof world>, deltas: number) {
    const written: object[] = []
    const log = { id: 'a', written: [], begin: () => {}, append: (record: object) => void written.push(structuredClone(record)) }
    const sent: TextDelta[] = []
    for await (const delta of w.pice.logged(log).answer(requestOf(), never) as AsyncGenerator<TextDelta>) {
      sent.push(delta)
      if (sent.length === deltas) break
    }
    const resume = (at: ReturnType<typeof world> = w) =>
      collect(at.pice.logged({ ...log, written }).answer(requestOf(), never) as AsyncGenerator<TextDelta>)
    return { resume, written }
  }

  it('asks devices only for the sentences that it does not have, under the same name', async () => {
    const w = world({
      async *expand({ input }) {
        for (const sentence of [...(input.sentences ?? [])].reverse()) yield expandedBy('d', sentence)
      },
    })
    // The first delta with text comes with the last sentence that arrives.
    const { resume } = await interrupted(w, 3)
    const next = world()
    const { text, figures } = await resume(next)
    expect(text).toBe(texts.join(' '))
    expect(next.requests).toEqual([])
    expect(next.calls).toEqual([])
    expect(figures).toMatchObject({ mode: 'sketch', sketchLines: 3, edgeTokens: 18 })
  })

  it('goes on after its sketch, after some sentences, and begins anew within a sketch', async () => {
    for (const deltas of [1, 2, 3, 4]) {
      const w = world()
      const { resume } = await interrupted(w, deltas)
      const { text } = await resume()
      expect(text).toBe(texts.join(' '))
      if (deltas > 2) expect(w.requests.at(-1)).toMatchObject({ id: 'a', input: { sentences: deltas === 3 ? [1, 2] : [2] } })
    }
  })

  it('goes on after the text of its first lines, wherever it was interrupted', async () => {
    const four = [...lines, 'wind, night']
    const fourTexts = [...texts, 'The wind blows at night.']
    const reply = (call: Call): Reply => {
      if (call.instruction.startsWith('Sketch ')) return { pieces: four.map((line) => `${line}\n`) }
      if (isRest(call)) {
        const content = call.request.prompt.asText()
        const had = content.kind === 'chat' ? (content.messages.at(-2)?.content ?? '') : ''
        return { pieces: four.filter((line) => !had.includes(line)).map((line) => `${line}\n`) }
      }
      return wellBehaved(call)
    }
    async function* expand({ input }: ExpansionRequest): AsyncGenerator<Expanded, void> {
      for (const sentence of input.sentences!) yield expandedBy('d', sentence, { text: fourTexts[sentence]! })
    }
    const of = () => world({ reply, idleDevices: 2, expand, sketchNext: 'Go on.' })
    for (let deltas = 1; deltas <= 9; deltas += 1) {
      const { resume } = await interrupted(of(), deltas)
      const { text, end } = await resume(of())
      expect([text, end]).toEqual([fourTexts.join(' '), 'stop'])
    }
  })

  it('cannot go on in the middle of a full answer of another server, but at its end', async () => {
    const half = await interrupted(world({ plan: plans.full }), 2)
    await expect(half.resume()).rejects.toMatchObject({ code: 'UPSTREAM_FAILED' })
    const complete = await interrupted(world({ plan: plans.full }), 9)
    expect(await complete.resume()).toMatchObject({ text: whole, end: 'stop' })
  })
})
