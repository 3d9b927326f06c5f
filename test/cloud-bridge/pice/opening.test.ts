import { describe, expect, it } from 'vitest'
import type { ExpansionRequest } from '../../../cloud-bridge/pice/expander.ts'
import type { AnswerRequest, TextDelta } from '../../../core/answer/endpoint/endpoint.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import {
  ask,
  collect,
  expandedBy,
  failed,
  lines,
  never,
  requestOf,
  texts,
  type WorldOptions,
  wellBehaved,
  world,
} from '../../support/pice-world.ts'
import type { Call, Reply } from '../../support/scripted-llm.ts'

const full = texts.join(' ')

/** Each piece in a turn of its own, so that a plan is made after the first. */
async function* slowly(pieces: readonly string[]): AsyncGenerator<string> {
  for (const piece of pieces) {
    yield piece
    await new Promise(setImmediate)
  }
}
const words = (text: string) => text.split(/(?= )/)

/** An LLM that goes on where an answer has begun. */
const reply = (call: Call): Reply => {
  if (call.instruction !== '') return wellBehaved(call)
  const { answered } = call.request
  return { pieces: slowly(words(full.slice(answered && 'text' in answered ? answered.text.length : 0))) }
}

/** The line of each sentence is where its text is. */
async function* expand({ input }: ExpansionRequest) {
  for (const at of input.sentences!) yield expandedBy('d', lines.indexOf(input.sketch[at]!), { sentence: at })
}

const begun = (more: WorldOptions = {}) => world({ reply, expand, continues: true, ...more })
const kindsOf = (deltas: readonly TextDelta[]) => deltas.flatMap(({ text, source }) => (text === '' ? [] : [source.kind]))
const asked = ({ calls }: ReturnType<typeof world>) => calls.map(({ instruction }) => instruction)

describe('an answer that the LLM begins itself', () => {
  it('has its first sentence by the LLM before there is a sketch, and devices write the others', async () => {
    const w = begun()
    const { text, end, deltas, figures } = await ask(w)
    expect([text, end]).toEqual([full, 'stop'])
    expect(asked(w)).toEqual(['', 'How long?', 'Sketch 1.'])
    const firstText = deltas.findIndex((delta) => delta.text !== '')
    expect(firstText).toBeLessThan(deltas.findIndex(({ sketch }) => sketch))
    expect([...new Set(kindsOf(deltas))]).toEqual(['upstream', 'device'])
    expect(w.requests.map(({ input }) => input)).toMatchObject([{ sketch: [texts[0], lines[1], lines[2]], sentences: [1, 2] }])
    // Three events of the sketch and the foresight, the words of the first sentence, and the one after it.
    const counts = { expandedSentences: 2, completedSentences: 0, cloudTokens: 4 + words(texts[0]!).length }
    expect(figures).toMatchObject({ mode: 'sketch', reason: null, ...counts })
    // No line is announced whose text the client has.
    expect(deltas.flatMap(({ sketch = [] }) => sketch)).not.toContain(lines[0])
  })

  it.each([
    ['none of the lines', ['It is easy to find', ':', '\n\n', 'The'], `It is easy to find:\n\n${full}`],
    ['another line than the first', words(`${texts[2]} The`), `${texts[2]} ${full}`],
    ['white space at its end', ['The keys are on the table.', '\n\n', 'The'], `${texts[0]}\n\n${texts[1]} ${texts[2]}`],
  ])('is followed by the lines that it does not say: it says %s', async (_, pieces, expected) => {
    const opening = { pieces: slowly(pieces) }
    expect((await ask(begun({ reply: (call) => (call.instruction === '' ? opening : wellBehaved(call)) }))).text).toBe(expected)
  })

  it('goes on to the end of a sentence once there is a plan, and says each line once', async () => {
    for (const [turns, sentences] of [
      [0, [1, 2]],
      [3, [1, 2]],
      // Two sentences are one line.
      [7, [1]],
    ] as const) {
      const foresight = { pieces: slowly([...Array<string>(turns).fill(''), '120']) }
      const w = begun({ reply: (call) => (call.instruction === 'How long?' ? foresight : reply(call)) })
      expect((await ask(w)).text).toBe(full)
      expect(w.requests.map(({ input }) => input.sentences)).toEqual([sentences])
    }
  })

  it('goes on where the plan is full, with one request, and learns its length', async () => {
    const w = begun({ plan: { mode: 'full', reason: 'objectives', fullS: 1 } })
    const { text, end, figures } = await ask(w)
    expect([text, end]).toEqual([full, 'stop'])
    expect(asked(w)).toEqual(['', 'How long?'])
    expect(figures).toMatchObject({ mode: 'full', reason: 'objectives', foreseenTokens: 120 })
  })

  it.each([
    ['the sketch is too short', { pieces: ['keys, table'] }, 'sketch-short'],
    ['the sketch has no end', { pieces: lines, end: 'length' as const }, 'sketch-long'],
    ['the LLM fails', { pieces: [], error: failed() }, 'sketch-failed'],
  ])('goes on after its first sentence where %s', async (_, sketch, reason) => {
    const w = begun({ reply: (call) => (call.instruction.startsWith('Sketch') ? sketch : reply(call)) })
    const { text, end, figures } = await ask(w, { maxTokens: 200 })
    // A sketch of one line that the opening says leaves nothing to write out.
    expect([text, end]).toEqual([full, 'stop'])
    expect(figures.reason).toBe(reason)
    const last = w.calls.at(-1)!.request
    expect(last.answered).toEqual({ text: texts[0] })
    expect(last.maxTokens).toBe(200 - texts[0]!.split(' ').length)
  })

  it('waits where the queue of the LLM is full: its reader has the beginning', async () => {
    let refusals = 2
    const w = begun({
      reply: (call) => {
        if (call.instruction.startsWith('Sketch')) return { pieces: [], error: failed() }
        const isRefused = call.request.answered !== undefined && refusals-- > 0
        return isRefused ? { pieces: [], error: new BrimError('QUEUE_FULL', 'full', { retryAfterMs: 2_000 }) } : reply(call)
      },
    })
    const answer = ask(w)
    for (let turns = 0; turns < 40; turns++) await new Promise(setImmediate)
    expect(w.calls.filter(({ request }) => request.answered)).toHaveLength(1)
    await w.clock.advance(2_000)
    await w.clock.advance(2_000)
    expect((await answer).text).toBe(full)
  })

  it('goes on after its first sentence where no device writes anything', async () => {
    const w = begun({
      async *expand() {
        yield await Promise.reject(failed())
      },
    })
    const { text, figures, deltas } = await ask(w)
    expect(text).toBe(full)
    expect(figures.reason).toBe('expansion')
    expect(deltas.findLast(({ sketch }) => sketch)?.sketch).toEqual([])
  })

  it('is not planned again where the plan fails: the LLM goes on', async () => {
    const error = new BrimError('QUEUE_FULL', 'full')
    const w = begun({ reply: (call) => (call.instruction === 'How long?' ? { pieces: [], error } : reply(call)) })
    expect(await ask(w)).toMatchObject({ text: full, figures: { mode: 'full', reason: 'foresight' } })
  })

  it('is full where it has no end that could be found, as in code', async () => {
    const code = `\`\`\`\n${'a. B. '.repeat(60)}\n\`\`\``
    const w = begun({ reply: (call) => (call.instruction === '' ? { pieces: slowly(words(code)) } : wellBehaved(call)) })
    expect(await ask(w)).toMatchObject({ text: code, figures: { reason: 'opening' } })
    expect(asked(w)).not.toContain('Sketch 1.')
  })

  it('has ended before there is a plan, where it is short', async () => {
    let canceled = false
    const w = begun({
      reply: (call) => {
        if (call.instruction !== 'How long?') return { pieces: ['Yes.'] }
        call.signal.addEventListener('abort', () => (canceled = true))
        return 'waits'
      },
    })
    expect(await ask(w)).toMatchObject({ text: 'Yes.', end: 'stop' })
    expect(canceled).toBe(true)
  })

  it('is shown to a model whose prompts have a text for it, at any temperature', async () => {
    const sketchOpened = 'Only the rest.'
    const rest = (call: Call): Reply =>
      call.instruction === sketchOpened ? { pieces: [lines.slice(1).join('\n')] } : reply(call)
    const w = begun({ sketchOpened, reply: rest })
    const sampling = { temperature: 1, topP: 1, topK: 0, seed: 1 }
    expect((await ask(w, { sampling })).text).toBe(full)
    const content = w.calls.at(-1)!.request.prompt.asText()
    expect(content).toMatchObject({
      messages: [
        { role: 'user' },
        { role: 'assistant', content: texts[0] },
        { role: 'user', content: `Sketch 1.\n\n${sketchOpened}` },
      ],
    })
  })

  it.each<[string, WorldOptions, Partial<AnswerRequest>]>([
    ['the client gets the answer in one piece', {}, { isWhole: true }],
    ['the LLM cannot go on', { continues: false }, {}],
    ['the sketch would be of another answer', {}, { sampling: { temperature: 1, topP: 1, topK: 0, seed: 1 } }],
  ])('begins with the plan where %s', async (_, options, request) => {
    const w = begun(options)
    await ask(w, request)
    expect(asked(w)[0]).toBe('How long?')
  })

  it('stops the LLM and the devices when the client leaves', async () => {
    for (const after of [1, 3, 8]) {
      const w = begun()
      let left = after
      for await (const _ of w.pice.answer(requestOf(), never)) if (--left === 0) break
      expect([...w.running]).toEqual([])
      expect(w.ended).toHaveLength(1)
    }
  })

  it('goes on wherever it was interrupted, with the text that the client has', async () => {
    const all = await ask(begun())
    for (let deltas = 1; deltas < all.deltas.length; deltas++) {
      const w = begun()
      const written: object[] = []
      const log = {
        id: 'a',
        written: [],
        begin: () => {},
        append: (record: object) => void written.push(structuredClone(record)),
      }
      const sent: TextDelta[] = []
      for await (const delta of w.pice.logged(log).answer(requestOf(), never) as AsyncGenerator<TextDelta>) {
        sent.push(delta)
        if (sent.length === deltas) break
      }
      const resumed = await collect(w.pice.logged({ ...log, written }).answer(requestOf(), never) as AsyncGenerator<TextDelta>)
      expect(resumed.text).toBe(full)
      // The client names what it has by its tokens: there, the text is the same.
      const tokens = sent.reduce((sum, { tokenCount }) => sum + tokenCount, 0)
      const countTo = (at: number) => resumed.deltas.slice(0, at + 1).reduce((sum, { tokenCount }) => sum + tokenCount, 0)
      const again = resumed.deltas.filter((_, at) => countTo(at) <= tokens)
      const textOf = (those: readonly TextDelta[]) => those.map(({ text }) => text).join('')
      expect(textOf(again)).toBe(textOf(sent))
    }
  })
})
