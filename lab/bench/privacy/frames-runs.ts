import { systemClock } from '../../../core/kit/base/clock.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import type { LoadedModel } from '../../../core/model/engine/open-model.ts'
import { greedy } from '../../../core/model/engine/sampler.ts'
import { auditPrivacy, auditSampling } from '../../../core/model/privacy/audit.ts'
import { observationOf, onWire } from '../../../core/model/privacy/observation.ts'
import { sliceStates } from '../../../core/wire/protocol/states.ts'
import type { BenchContext } from '../../frame/bench.ts'
import { type FrameTrace, findingsOf, type TraceFindings } from './frame-traces.ts'
import { type RecordedDevice, startRecordedDevice, type WireForm } from './recorded-device.ts'
import type { Texts } from './texts.ts'

/** What recorded frames of a device tell the bridge, and an observer of the link. */
export interface FramesRun extends WireForm {
  readonly kind: 'frames'
  readonly answers: number
  /** Share of the tokens that the search finds, by the rows that the bridge holds: of prompts, and of answers. */
  readonly promptTop1: number
  readonly answerTop1: number
  /** Of an observer of the encrypted link. */
  readonly observed: TraceFindings
  /** Tokens of a round, on average. */
  readonly acceptLength: number
  readonly tbtMs: number
  readonly bytesUp: number
  /** Over the first form's, of the same answers. */
  readonly tbtOverPlain: number
  readonly bytesOverPlain: number
  /** Share of the answers whose tokens are those of the first form. */
  readonly sameAnswers: number
}

export interface FramesPlan {
  readonly prompts: number
  /** Answers to each, in each form. */
  readonly repeats: number
  readonly answerTokens: number
  readonly intervalsMs: readonly number[]
}

const padded = { wire: 'fp16', padding: true } as const

/** The first is the one that others are compared with. Drafts with the threshold 0 are as long as the bridge allows. */
const formsOf = ({ intervalsMs }: FramesPlan): WireForm[] => [
  { wire: 'fp16', padding: false },
  padded,
  { ...padded, threshold: 0 },
  { wire: 'fp16c', padding: true },
  { wire: 'int8', padding: true },
  ...intervalsMs.map((intervalMs) => ({ ...padded, intervalMs })),
  ...intervalsMs.slice(-1).map((intervalMs) => ({ ...padded, intervalMs, threshold: 0 })),
]

type Answers = Awaited<ReturnType<RecordedDevice['answer']>>[]

export async function framesRuns(
  bundle: string,
  model: LoadedModel,
  texts: Texts,
  plan: FramesPlan,
  { io, progress }: BenchContext,
): Promise<FramesRun[]> {
  await using device = await startRecordedDevice(bundle, io)
  const forms = formsOf(plan)
  const prompts = texts.asked.slice(0, plan.prompts)
  const answers: Answers[] = forms.map(() => [])
  // The first answers teach the device its speed. Forms take turns, so that they share what else the machine does.
  await device.answer(prompts[0]!, forms[0]!, greedy, plan.answerTokens)
  for (let repeat = 0; repeat < plan.repeats; repeat++)
    for (const [at, prompt] of prompts.entries()) {
      progress(`recorded answers: ${repeat * prompts.length + at} of ${plan.repeats * prompts.length}`)
      for (const [form, each] of forms.entries())
        answers[form]!.push(await device.answer(prompt, each, greedy, plan.answerTokens))
    }
  const runs: FramesRun[] = []
  for (const [at, form] of forms.entries()) {
    progress(`recorded frames: ${JSON.stringify(form)}`)
    const [all, plain] = [answers[at]!, answers[0]!]
    const mean = (figure: (answer: Answers[number]) => number, of = all) =>
      of.reduce((sum, each) => sum + figure(each), 0) / of.length
    const tbtMs = mean((answer) => answer.tbtMs)
    const bytesUp = mean((answer) => answer.bytesUp)
    const traces = all.map(({ arrivals, firstMs }, index): FrameTrace => {
      return { prompt: index % prompts.length, arrivals, firstMs }
    })
    runs.push({
      ...{ kind: 'frames', ...form, answers: all.length, tbtMs, bytesUp },
      ...(await foundInFrames(model, texts, device, form, plan)),
      observed: findingsOf(traces, seededRandom(1)),
      acceptLength: mean(({ tokens, rounds }) => tokens.length / rounds),
      tbtOverPlain: tbtMs / mean((answer) => answer.tbtMs, plain),
      bytesOverPlain: bytesUp / mean((answer) => answer.bytesUp, plain),
      sameAnswers: mean((answer) => Number(answer.tokens.join() === plain[all.indexOf(answer)]!.tokens.join())),
    })
  }
  return runs
}

/** The search by the rows that the bridge holds, of answers to the prompts that the other attacks have. */
async function foundInFrames(
  model: LoadedModel,
  { prompts, decode }: Texts,
  device: RecordedDevice,
  form: WireForm,
  { answerTokens }: FramesPlan,
): Promise<Pick<FramesRun, 'promptTop1' | 'answerTop1'>> {
  const found = await auditPrivacy({
    ...{ model, prompts, decode, answerTokens, training: [], random: seededRandom(1), now: systemClock.nowMs },
    send: onWire(form.wire === 'int8' ? 'int8' : 'fp16'),
    async observe(promptIds, at) {
      const { tokens, rows } = await device.answer(promptIds, form, auditSampling(at), answerTokens)
      const ids = [...promptIds, ...tokens]
      return observationOf(model, { ids, promptTokens: promptIds.length }, sliceStates(rows, 0, ids.length - 1))
    },
  })
  const top1 = (text: 'prompt' | 'answer') =>
    found.find((each) => each.attack === 'search' && each.text === text)!.recovered.top1!.mean
  return { promptTop1: top1('prompt'), answerTop1: top1('answer') }
}
