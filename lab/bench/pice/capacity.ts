import { foreseenTokens } from '../../../core/answer/sketch/foresight.ts'
import { withInstruction } from '../../../core/answer/sketch/prompts.ts'
import type { FilePrompt } from '../../../core/model/text/prompt-file.ts'
import { rouge1 } from '../../../core/policy/pice/rouge.ts'
import type { StepPace } from '../../cluster/cluster.ts'
import { loggedSteps } from '../../cluster/logged-steps.ts'
import { mean } from '../../frame/statistics.ts'
import { type Answered, askBridge, askDevice } from './asking.ts'
import { type PiceCluster, startPiceCluster } from './cluster.ts'
import type { Capacity } from './runs.ts'
import { batch, burst, questionOf, type Setup } from './setup.ts'
import { saturatedPerS } from './workload.ts'

/** What is known of each prompt before the runs. */
export interface Known {
  /** The LLM's own full answer. */
  readonly own: string
  /** What the routers go by: the length that the LLM foresees, and how unlike the LLM's the small model's answer is. */
  readonly length: number
  readonly difficulty: number
}

/** Time of the LLM's steps on this machine, from a bridge without devices. */
export async function measurePace(setup: Setup): Promise<StepPace> {
  await using cluster = await startPiceCluster({ ...setup, devices: 0 })
  const ask = (i: number) => {
    const prompt = setup.prompts[i % setup.prompts.length]!
    return askBridge(
      cluster.httpUrl,
      { ...questionOf(prompt, setup), maxTokens: 64 },
      { mode: 'full', user: `${i}` },
      setup.io.signal,
    )
  }
  for (const size of [1, batch, 1, batch]) await Promise.all(Array.from({ length: size }, (_, i) => ask(i)))
  const steps = await loggedSteps(cluster.httpUrl, setup.io.signal)
  const timeOf = (streams: number) => {
    const times = steps.filter(({ items, tokens }) => items === streams && tokens === streams).map(({ computeMs }) => computeMs)
    // Other processes only delay steps.
    return Math.min(...times)
  }
  const [one, full] = [timeOf(1), timeOf(batch)]
  const rowMs = Math.min(one, Math.max(0, full - one) / (batch - 1))
  return { stepMs: one - rowMs, rowMs }
}

/** What the cloud and the devices can do alone, and what is known of each prompt from their answers. */
export async function measureCapacity(
  setup: Setup,
  cluster: PiceCluster,
): Promise<{ capacity: Capacity; known: ReadonlyMap<string, Known> }> {
  const { plan, prompts, picePrompts, judge, io, progress } = setup
  const full = (prompt: FilePrompt, i: number | string) =>
    askBridge(cluster.httpUrl, questionOf(prompt, setup), { mode: 'full', user: `capacity ${i}` }, io.signal)
  const small = (prompt: FilePrompt) => askDevice(cluster.httpUrl, questionOf(prompt, setup), io.signal)
  const foresee = (prompt: FilePrompt, i: number) => {
    const messages = withInstruction(prompt.messages ?? [], picePrompts.foresight)
    return askBridge(cluster.httpUrl, { messages, maxTokens: 8 }, { mode: 'full', user: `length ${i}` }, io.signal)
  }
  await burst(prompts.slice(0, batch), full)
  progress('capacity of the cloud')
  const alone = await full(prompts[0]!, 'alone')
  const answers = await burst(prompts, (prompt, i) => full(prompt, `all ${i}`))
  const lengths = await burst(prompts, foresee)
  progress('capacity of the devices')
  await burst(prompts.slice(0, plan.devices), small)
  const smallAlone = await small(prompts[0]!)
  const smallAnswers = await burst(prompts, small)
  for (const { sample } of [...answers, ...smallAnswers])
    if (sample.error !== null) throw new Error(`no capacity: ${sample.error}`)
  const known = new Map(
    prompts.map(({ id }, i) => {
      const own = answers[i]!.text
      const length = foreseenTokens(lengths[i]!.text, picePrompts) ?? plan.answerTokens
      return [id, { own, length, difficulty: 1 - rouge1(own, smallAnswers[i]!.text).f1 }]
    }),
  )
  const tokenS = ({ text, sample }: Answered) => sample.tookMs! / 1_000 / Math.max(1, judge.tokensOf(text).length)
  const capacity = {
    cloudPerS: saturatedPerS(
      answers.map(({ piecesMs }) => piecesMs),
      batch,
    ),
    edgePerS: saturatedPerS(
      smallAnswers.map(({ piecesMs }) => piecesMs),
      plan.devices,
    ),
    cloudTokens: mean(answers.map(({ sample }) => sample.cloudTokens))!,
    edgeTokens: mean(smallAnswers.map(({ sample }) => sample.edgeTokens))!,
    cloudTokenS: tokenS(alone),
    edgeTokenS: tokenS(smallAlone),
  }
  return { capacity, known }
}
