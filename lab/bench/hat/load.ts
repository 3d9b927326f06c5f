import type { LoggedStep } from '../../../core/wire/protocol/http/bridge.ts'
import { askAgent } from '../../cluster/ask-agent.ts'
import type { Cores } from '../../cluster/cores.ts'
import { coreBusySeconds, cpuSeconds, cpuUseFromNow } from '../../cluster/cpu-times.ts'
import { stepsFromNow } from '../../cluster/logged-steps.ts'
import { servedMs } from '../../cluster/rate-trace.ts'
import type { Passage } from '../../cluster/shaped-link.ts'
import { sum } from '../../frame/statistics.ts'
import { playInTime } from '../in-time.ts'
import { isLooping } from '../looping.ts'
import type { HatCluster } from './cluster.ts'
import type { HatRun, PrefillFigures, Sample } from './runs.ts'
import type { Arrival, HatPrompt } from './workload.ts'

/** An answer that was not yet compared with the reference; the comparison completes its sample. */
export interface UncheckedAnswer {
  readonly sample: Sample
  readonly prompt: HatPrompt
  readonly tokenIds: readonly number[]
}

export interface HatRequest {
  readonly prompt: HatPrompt
  readonly maxTokens: number
  /** Requests of different users share no cached prefix. */
  readonly user: string
  readonly device: number
  /** Since the load began; of one device alone, time of the link's traces. */
  readonly atMs: number
}

/** Asks a device's API for a greedy answer. @throws BrimError LINK_LOST with the agent's message */
export const askDevice = ({ devices }: HatCluster, request: HatRequest, signal: AbortSignal): Promise<UncheckedAnswer> =>
  askForAnswer(devices[request.device]!.apiUrl, request, signal)

/** The same of the API of a device or a bridge. */
export async function askForAnswer(
  apiUrl: string,
  { prompt, maxTokens, user, device, atMs }: HatRequest,
  signal: AbortSignal,
): Promise<UncheckedAnswer> {
  const body = { prompt: prompt.ids, max_tokens: maxTokens, temperature: 0, user }
  const { sentMs, arrivedMs, report } = await askAgent(apiUrl, body, signal)
  const { rounds, acceptLength, reusedTokens, bytesUp, bytesDown, rates, tokenIds } = report
  const piecesMs = arrivedMs.map((arrivalMs) => Math.round(100 * (arrivalMs - sentMs)) / 100)
  // An answer that begins with its end-of-text token has no text: the agent's own figure counts.
  const ttftMs = piecesMs[0] ?? report.ttftMs
  const tokens = tokenIds.length
  const sample: Sample = {
    prompt: prompt.id,
    promptTokens: prompt.ids.length,
    tokens,
    ttftMs,
    tbtMs: tokens > 1 && piecesMs.length > 1 ? (piecesMs.at(-1)! - ttftMs) / (tokens - 1) : null,
    piecesMs,
    rounds,
    acceptLength,
    reusedTokens,
    bytesUp,
    bytesDown,
    prefillTokensPerS: rates?.prefillTokensPerS ?? null,
    upBytesPerS: rates?.upBytesPerS ?? null,
    device,
    atMs,
    identical: null,
    nearTies: 0,
    looping: isLooping(tokenIds),
  }
  return { sample, prompt, tokenIds }
}

interface Load {
  readonly prompts: readonly HatPrompt[]
  readonly arrivals: readonly Arrival[]
  readonly maxTokens: number
}

/** Sends requests as they arrive, whether or not earlier ones are answered. */
export async function runLoad(
  cluster: HatCluster,
  { prompts, arrivals, maxTokens }: Load,
  cores: Cores | undefined,
  signal: AbortSignal,
): Promise<Pick<HatRun, 'steps' | 'utilisation'> & { readonly answers: readonly UncheckedAnswer[] }> {
  const stepsSince = await stepsFromNow(cluster.httpUrl, signal)
  for (const { link } of cluster.devices) link.startOver(0)
  const pids = [...cluster.devices.map(({ pid }) => pid), process.pid]
  const used = cpuUseFromNow({
    bridge: () => cpuSeconds([cluster.bridgePid]),
    others: () => cpuSeconds(pids),
    core: () => cores && coreBusySeconds(cores.others),
  })
  const startedMs = performance.now()
  const answers = await playInTime(arrivals, signal, ({ device, prompt }, atMs, i) =>
    askDevice(cluster, { prompt: prompts[prompt]!, maxTokens, user: `request ${i}`, device, atMs }, signal),
  )
  const wallMs = performance.now() - startedMs
  const { bridge, others, core } = used()
  const foreign = core === null || others === null ? null : Math.max(0, core - others)
  const steps = await stepsSince()
  const computing = sum(steps.map(({ computeMs }) => computeMs)) / wallMs
  return { steps, utilisation: { bridge, others, foreign, computing }, answers }
}

export type AloneAnswer = UncheckedAnswer & { readonly steps: readonly LoggedStep[]; readonly passages: readonly Passage[] }

interface AloneConditions {
  readonly stateBytes: number
  readonly rttMs: number
  /** Time of one row through the output part. */
  readonly headMs: number
}

/** One request on an otherwise idle cluster. */
export async function askAlone(
  cluster: HatCluster,
  request: HatRequest,
  conditions: AloneConditions,
  signal: AbortSignal,
): Promise<AloneAnswer> {
  const { link, shape } = cluster.devices[request.device]!
  const stepsSince = await stepsFromNow(cluster.httpUrl, signal)
  link.startOver(request.atMs)
  const { sample, ...answer } = await askDevice(cluster, request, signal)
  const steps = await stepsSince()
  const prefill = prefillFigures(sample, steps, shape.up.rates, conditions)
  return { ...answer, sample: { ...sample, prefill }, steps, passages: link.passages }
}

/** For an answer that had the bridge to itself, so that the first steps are its prompt's. */
function prefillFigures(
  { promptTokens, reusedTokens, ttftMs, prefillTokensPerS, atMs }: Sample,
  steps: readonly LoggedStep[],
  upload: Parameters<typeof servedMs>[0],
  { stateBytes, rttMs, headMs }: AloneConditions,
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
  const cloudMs = sum(own.map(({ computeMs }) => computeMs))
  const beganMs = atMs + (own[0]?.tokens ?? 0) * tokenMs
  const uploadMs = servedMs(upload, beganMs, sent * stateBytes) - atMs
  const lastStep = own.at(-1)
  const limitMs = uploadMs + (lastStep?.predictedMs ?? lastStep?.computeMs ?? 0) + rttMs + headMs
  return { deviceMs, cloudMs, networkMs: ttftMs - deviceMs - cloudMs, limitMs }
}
