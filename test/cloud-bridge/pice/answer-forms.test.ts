import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { piceEndpoint } from '../../../cloud-bridge/pice/endpoint.ts'
import type { Expanded, Expander } from '../../../cloud-bridge/pice/expander.ts'
import { Llm } from '../../../cloud-bridge/pice/llm.ts'
import { Planner } from '../../../cloud-bridge/pice/planner.ts'
import { sketchLines } from '../../../cloud-bridge/pice/sketch-reader.ts'
import type { TextDelta } from '../../../core/answer/endpoint/endpoint.ts'
import { Prompt } from '../../../core/answer/endpoint/prompt.ts'
import { cleanExpansion } from '../../../core/answer/sketch/clean-expansion.ts'
import { generalPrompts } from '../../../core/answer/sketch/prompts.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { LengthRatio } from '../../../core/policy/pice/length-ratio.ts'
import type { AnswerPlan } from '../../../core/policy/pice/plan-answer.ts'
import { fakeClock } from '../../support/fake-clock.ts'
import { scriptedLlm } from '../../support/scripted-llm.ts'
import { silentLogger } from '../../support/silent-logger.ts'

/** A request, the sketch of its answer, what small models reply for each of its lines, and the answer that a reader should get. */
interface Form {
  readonly name: string
  readonly request: string
  readonly sketch: string
  readonly replies: readonly string[]
  readonly answer: string
}

const file = new URL('../../fixtures/sketch-forms/forms.txt', import.meta.url)

const forms: readonly Form[] = readFileSync(file, 'utf8')
  .split(/^=== /m)
  .slice(1)
  .map((text) => {
    const [head = '', sketch = '', replies = '', answer = ''] = text.split(/^--- \w+\n/m)
    const [name = '', ...request] = head.trim().split('\n')
    return {
      name,
      request: request.join('\n'),
      sketch: sketch.trimEnd(),
      // A reply that spans lines has its breaks as \n.
      replies: replies.split('\n').map((reply) => reply.replaceAll('\\n', '\n')),
      answer: answer.trimEnd(),
    }
  })

const whole = 'A full answer.'
/** Of the LLM for a line that no device has written. */
const byLlm = (line: string) => `${line} (LLM).`
const plan = { mode: 'sketch', level: 1, sketchTokens: 60, fullS: 10, sketchS: 2, predictedS: 5 } as unknown as AnswerPlan

/** What the bridge answers. @param reversed the devices send the last line first */
async function answerOf({ request, sketch, replies }: Form, reversed: boolean): Promise<string> {
  const llm = scriptedLlm(({ instruction }) => {
    if (instruction.startsWith('Do not answer')) return { pieces: ['120'] }
    if (instruction.startsWith('Do not write the full')) return { pieces: sketch.split(/(?<=\s)/) }
    const line = /Key words: (.*)$/.exec(instruction)?.[1]
    return { pieces: [line === undefined ? whole : byLlm(line)] }
  })
  const expander: Expander = {
    view: () => ({ devices: [], waiting: [] }),
    judge() {},
    async *expand({ input }) {
      const expanded = (input.sentences ?? []).map((sentence, at): Expanded => {
        const [reply = '', isCut] = (replies[at] ?? '').split(' [cut]')
        const { text } = cleanExpansion(reply, input.sketch[sentence]!)
        const end = isCut === undefined ? 'stop' : 'length'
        return { device: 'd', sentence, candidate: 0, model: 'slm', text, tokens: 6, meanLog2Probability: -1, end }
      })
      yield* reversed ? expanded.toReversed() : expanded
    },
  }
  const clock = fakeClock()
  const parts = { llm: new Llm(llm, generalPrompts), expander, clock, logger: silentLogger() }
  const cloud = { speed: { waitS: 0, ttftS: 1, tpotS: 0.1 } }
  const policies = { foresight: new LengthRatio(), policy: () => plan, suits: () => true }
  const planner = new Planner({ ...parts, ...policies, cloud, maxForesightMs: 1_000 })
  const limits = { candidates: 1, maxSketchMs: 1_000, maxExpansionMs: 60_000 }
  const pice = piceEndpoint({ ...parts, ...limits, planner, onEnded() {} }, 'sketch')
  const prompt = new Prompt({ kind: 'chat', messages: [{ role: 'user', content: request }] })
  let text = ''
  const asked = { prompt, sampling: greedy, stop: [], client: 'c' }
  for await (const delta of pice.answer(asked, new AbortController().signal) as AsyncGenerator<TextDelta>) text += delta.text
  return text
}

describe('a sketched answer has the form of its sketch, and the one that its request asks for', () => {
  it('in forty kinds of requests', () => {
    expect(forms.length).toBeGreaterThanOrEqual(40)
    for (const { sketch } of forms) expect(sketchLines(sketch).length).toBeGreaterThan(1)
  })

  it.each(forms.map((form) => [form.name, form] as const))('%s', async (_, form) => {
    expect(await answerOf(form, false)).toBe(form.answer)
    expect(await answerOf(form, true)).toBe(form.answer)
  })
})
