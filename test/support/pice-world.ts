import { piceEndpoint } from '../../cloud-bridge/pice/endpoint.ts'
import type { Expanded, Expander, ExpansionRequest } from '../../cloud-bridge/pice/expander.ts'
import { Llm } from '../../cloud-bridge/pice/llm.ts'
import type { EndedAnswer } from '../../cloud-bridge/pice/pice-answer.ts'
import { Planner } from '../../cloud-bridge/pice/planner.ts'
import type { AnswerRequest, TextDelta } from '../../core/answer/endpoint/endpoint.ts'
import type { PiceFigures } from '../../core/answer/endpoint/figures.ts'
import { Prompt } from '../../core/answer/endpoint/prompt.ts'
import type { PicePrompts } from '../../core/answer/sketch/prompts.ts'
import { BrimError } from '../../core/kit/base/errors.ts'
import { greedy } from '../../core/model/engine/sampler.ts'
import { LengthRatio } from '../../core/policy/pice/length-ratio.ts'
import type { AnswerPlan } from '../../core/policy/pice/plan-answer.ts'
import type { PlanPolicy } from '../../core/policy/pice/plan-policy.ts'
import type { ExpandingDevice, WaitingExpansion } from '../../core/policy/pice/state.ts'
import { fakeClock } from './fake-clock.ts'
import { type Call, type Reply, scriptedLlm } from './scripted-llm.ts'
import { silentLogger } from './silent-logger.ts'

export const prompts: PicePrompts = {
  foresight: 'How long?',
  foresightUnit: 'tokens',
  sketch: 'Sketch {level}.',
  sketchShares: [0.4],
  expand: 'Sketch:\n{sketch}\n\nWrite:\n{line}',
  expandNext: 'Write:\n{line}',
}

export const lines = ['keys, table', 'dog, garden', 'rain, evening']
export const texts = ['The keys are on the table.', 'The dog is in the garden.', 'It rains in the evening.']
export const whole = 'One full answer.'

const devicesS = { queueS: 1, networkS: 0.5, expansionS: 1.5 }
export const sketchPlan = {
  mode: 'sketch',
  level: 1,
  sketchTokens: 12,
  fullS: 10,
  sketchS: 2,
  predictedS: 5,
  ...devicesS,
} as const
export const plans = {
  sketch: sketchPlan as unknown as AnswerPlan,
  full: { mode: 'full', reason: 'latency', fullS: 1 } as AnswerPlan,
}

/** What a good model replies. */
export function wellBehaved({ instruction }: Call): Reply {
  if (instruction === 'How long?') return { pieces: ['1', '20'] }
  if (instruction.startsWith('Sketch ')) return { pieces: [lines.join('\n')] }
  const line = /Write:\n(.*)$/.exec(instruction)?.[1]
  return line === undefined ? { pieces: whole.split(/(?<= )/) } : { pieces: [texts[lines.indexOf(line)] ?? '?'] }
}

export const expandedBy = (device: string, sentence: number, more: Partial<Expanded> = {}): Expanded => ({
  device,
  sentence,
  candidate: 0,
  model: 'slm',
  text: texts[sentence]!,
  tokens: 6,
  meanLog2Probability: -1,
  ...more,
})

export interface WorldOptions {
  readonly reply?: (call: Call) => Reply | 'waits'
  readonly plan?: AnswerPlan
  readonly expand?: (request: ExpansionRequest, signal: AbortSignal) => AsyncGenerator<Expanded, void>
  readonly candidates?: number
  readonly suits?: boolean
  readonly sketchNext?: string
  readonly sketchOpened?: string
  /** Whether the LLM goes on after the beginning of an answer, so that it begins answers itself. */
  readonly continues?: boolean
  readonly idleDevices?: number
  /** In the place of `plan`. */
  readonly policy?: PlanPolicy
}

export function world({
  reply = wellBehaved,
  plan = plans.sketch,
  candidates = 1,
  suits = true,
  sketchNext,
  sketchOpened,
  continues = false,
  idleDevices = 0,
  ...options
}: WorldOptions = {}) {
  const clock = fakeClock()
  const endpoint = scriptedLlm(reply)
  const llm = new Llm({ ...endpoint, continues }, { ...prompts, sketchNext, sketchOpened })
  const requests: ExpansionRequest[] = []
  const judged: number[] = []
  const ended: EndedAnswer[] = []
  async function* inOrder({ input }: ExpansionRequest): AsyncGenerator<Expanded, void> {
    for (const sentence of input.sentences ?? []) yield expandedBy(`d${sentence}`, sentence)
  }
  const expander: Expander = {
    view: () => ({ devices: idleDevices > 0 ? [idle(idleDevices)] : [], waiting: [] }),
    expand(request, signal) {
      requests.push(request)
      return (options.expand ?? inOrder)(request, signal)
    },
    judge: (_device, _model, confidence) => void judged.push(confidence),
  }
  const cloud = { speed: { waitS: 0, ttftS: 1, tpotS: 0.1 } }
  const seen: (readonly WaitingExpansion[])[] = []
  const policy: PlanPolicy = (question, view, ...others) => {
    seen.push(view.waiting)
    return options.policy?.(question, view, ...others) ?? plan
  }
  const planner = new Planner({
    llm,
    cloud,
    expander,
    foresight: new LengthRatio(),
    policy,
    suits: () => suits,
    maxForesightMs: 1_000,
    clock,
  })
  const parts = { llm, planner, expander, candidates, maxSketchMs: 1_000, maxExpansionMs: 60_000, clock, logger: silentLogger() }
  const pice = piceEndpoint({ ...parts, onEnded: (answer) => ended.push(answer) }, 'auto')
  return { pice, planner, calls: endpoint.calls, running: endpoint.running, requests, judged, ended, seen, clock }
}

export const requestOf = (more: Partial<AnswerRequest> = {}, question = 'Where is it?'): AnswerRequest => ({
  prompt: new Prompt({ kind: 'chat', messages: [{ role: 'user', content: question }] }),
  sampling: greedy,
  stop: [],
  client: 'c',
  ...more,
})

export interface Collected {
  readonly text: string
  readonly end: TextDelta['end']
  readonly figures: PiceFigures
  readonly deltas: readonly TextDelta[]
}

export async function collect(deltas: AsyncIterable<TextDelta>): Promise<Collected> {
  const all: TextDelta[] = []
  for await (const delta of deltas) all.push(delta)
  const last = all.at(-1)!
  return { text: all.map(({ text }) => text).join(''), end: last.end, figures: last.pice!(), deltas: all }
}

export const never = new AbortController().signal
export const ask = ({ pice }: ReturnType<typeof world>, more: Partial<AnswerRequest> = {}) =>
  collect(pice.answer(requestOf(more), never) as AsyncGenerator<TextDelta>)

/** What a plan sees that is made now. */
export async function planned({ planner, seen }: ReturnType<typeof world>): Promise<readonly WaitingExpansion[]> {
  const request = requestOf()
  await planner.plan({ request, messages: [{ role: 'user', content: 'When?' }] }, 'auto', never)
  return seen.at(-1)!
}

/** Of a sketch that was cut. */
export function isRest({ request }: Call): boolean {
  const content = request.prompt.asText()
  return content.kind === 'chat' && content.messages.at(-1)?.content === 'Go on.'
}

export const idle = (count: number): ExpandingDevice => ({
  ...{ device: 'd', models: [], current: undefined, busyS: 0, networkS: 0 },
  count,
})

export const failed = () => new BrimError('EXPANSION_FAILED', 'no device is left')
