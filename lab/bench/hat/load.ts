import type { LoggedStep } from '../../../cloud-bridge/serving/step-log.ts'
import { systemClock } from '../../../core/base/clock.ts'
import { type Cores, coreBusySeconds, cpuSeconds } from '../../cluster/cores.ts'
import { servedMs } from '../../cluster/rate-trace.ts'
import { isLooping } from '../looping.ts'
import { type Answered, askDevice } from './client.ts'
import type { HatCluster } from './cluster.ts'
import type { HatRun, PrefillFigures, Sample, Utilisation } from './runs.ts'
import { encodeSteps } from './runs.ts'
import type { Arrival, HatPrompt } from './workload.ts'

/** An answer that was not yet compared with the reference; the comparison completes its sample. */
export interface UncheckedAnswer {
  readonly sample: Sample
  readonly prompt: HatPrompt
  readonly tokenIds: readonly number[]
}

export interface Load {
  readonly prompts: readonly HatPrompt[]
  readonly arrivals: readonly Arrival[]
  readonly maxTokens: number
}

export type Measurement = Pick<HatRun, 'samples' | 'steps' | 'utilisation'> & { readonly answers: readonly UncheckedAnswer[] }

/** Sends requests as they arrive, whether or not earlier ones are answered. */
export async function runLoad(
  cluster: HatCluster,
  { prompts, arrivals, maxTokens }: Load,
  cores: Cores | undefined,
  signal: AbortSignal,
): Promise<Measurement> {
  const before = (await cluster.steps()).at(-1)?.index ?? -1
  for (const { link } of cluster.devices) link.startOver(0)
  const utilisation = startUtilisation(cluster, cores)
  const startedMs = performance.now()
  const answers = await Promise.all(
    arrivals.map(async ({ atMs, device, prompt: at }, i) => {
      await systemClock.sleep(Math.max(0, startedMs + atMs - performance.now()), signal)
      const askedMs = performance.now() - startedMs
      const prompt = prompts[at]!
      const answered = await askDevice(cluster.devices[device]!.apiUrl, { prompt, maxTokens, user: `request ${i}` }, signal)
      return toUnchecked(answered, prompt, device, askedMs)
    }),
  )
  const wallMs = performance.now() - startedMs
  const used = utilisation()
  const steps = stepsAfter(await cluster.steps(), before)
  const computing = steps.reduce((sum, { computeMs }) => sum + computeMs, 0) / wallMs
  return {
    samples: answers.map(({ sample }) => sample),
    steps: encodeSteps(steps),
    utilisation: { ...used, computing },
    answers,
  }
}

export interface AloneOptions {
  readonly prompt: HatPrompt
  readonly maxTokens: number
  readonly user: string
  /** Time of the link's traces when the request is sent. */
  readonly atMs: number
  readonly stateBytes: number
  readonly rttMs: number
  /** Time of one row through the output part. */
  readonly headMs: number
}

/** One request on an otherwise idle cluster. */
export async function askAlone(
  cluster: HatCluster,
  options: AloneOptions,
  signal: AbortSignal,
): Promise<UncheckedAnswer & { steps: LoggedStep[] }> {
  const { prompt, maxTokens, user, atMs } = options
  const device = cluster.devices[0]!
  const before = (await cluster.steps()).at(-1)?.index ?? -1
  device.link.startOver(atMs)
  const answered = await askDevice(device.apiUrl, { prompt, maxTokens, user }, signal)
  const steps = stepsAfter(await cluster.steps(), before)
  const prefill = prefillFigures(answered, steps, device.shape.up.rates, options)
  return { ...toUnchecked(answered, prompt, 0, atMs, prefill), steps }
}

function toUnchecked(
  answered: Answered,
  prompt: HatPrompt,
  device: number,
  atMs: number,
  prefill?: PrefillFigures,
): UncheckedAnswer {
  const { tokenIds, ...figures } = answered
  const sample: Sample = {
    ...figures,
    device,
    atMs,
    identical: null,
    nearTies: 0,
    looping: isLooping(tokenIds),
    ...(prefill ? { prefill } : {}),
  }
  return { sample, prompt, tokenIds }
}

/** @throws Error when the bridge's log, which holds thousands of steps, has already dropped some of them */
function stepsAfter(steps: readonly LoggedStep[], before: number): LoggedStep[] {
  const first = steps[0]?.index ?? 0
  if (first > before + 1) throw new Error(`the bridge dropped ${first - before - 1} steps before they were read`)
  return steps.filter(({ index }) => index > before)
}

/** For an answer that had the bridge to itself, so that the first steps are its prompt's. */
function prefillFigures(
  { promptTokens, reusedTokens, ttftMs, prefillTokensPerS }: Answered,
  steps: readonly LoggedStep[],
  upload: Parameters<typeof servedMs>[0],
  { atMs, stateBytes, rttMs, headMs }: AloneOptions,
): PrefillFigures {
  const sent = promptTokens - reusedTokens
  let tokens = 0
  const last = steps.findIndex((step) => {
    tokens += step.tokens
    return tokens >= sent
  })
  const own = steps.slice(0, last + 1)
  const tokenMs = 1_000 / (prefillTokensPerS ?? Number.POSITIVE_INFINITY)
  const deviceMs = promptTokens * tokenMs + headMs
  const cloudMs = own.reduce((sum, { computeMs }) => sum + computeMs, 0)
  const beganMs = atMs + (own[0]?.tokens ?? 0) * tokenMs
  const uploadMs = servedMs(upload, beganMs, sent * stateBytes) - atMs
  const lastStep = own.at(-1)
  const limitMs = uploadMs + (lastStep?.predictedMs ?? lastStep?.computeMs ?? 0) + rttMs + headMs
  return { deviceMs, cloudMs, networkMs: ttftMs - deviceMs - cloudMs, limitMs }
}

/** @returns a function that reports the use of the cores since this call */
function startUtilisation(cluster: HatCluster, cores: Cores | undefined): () => Omit<Utilisation, 'computing'> {
  const others = [...cluster.agentPids, process.pid]
  const read = () => ({
    atS: performance.now() / 1_000,
    bridge: cpuSeconds([cluster.bridgePid]),
    others: cpuSeconds(others),
    core: cores ? coreBusySeconds(cores.others) : undefined,
  })
  const before = read()
  return () => {
    const after = read()
    const share = (what: 'bridge' | 'others' | 'core') => {
      const [from, to] = [before[what], after[what]]
      return from === undefined || to === undefined ? null : (to - from) / (after.atS - before.atS)
    }
    const [core, others] = [share('core'), share('others')]
    return { bridge: share('bridge'), others, foreign: core === null || others === null ? null : Math.max(0, core - others) }
  }
}
