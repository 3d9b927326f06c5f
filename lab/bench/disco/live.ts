import { systemClock } from '../../../core/kit/base/clock.ts'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { Io } from '../../../core/kit/base/io.ts'
import { seededRandom } from '../../../core/kit/base/random.ts'
import type { FilePrompt } from '../../../core/model/text/prompt-file.ts'
import type { AnswerDispatcher } from '../../../core/policy/disco/answer-dispatcher.ts'
import type { SideWork } from '../../../core/policy/disco/controller-plan.ts'
import { costOf } from '../../../core/policy/disco/costs.ts'
import { createTokenCounts, createTtft } from '../../../core/policy/disco/estimates.ts'
import type { ReportedSide, Side } from '../../../core/policy/disco/state.ts'
import { streamAnswerFrom } from '../../../core/wire/openai/client.ts'
import { Cluster } from '../../cluster/cluster.ts'
import { portOf } from '../../cluster/relay.ts'
import { sum } from '../../frame/statistics.ts'
import type { ApiLatency } from '../../simulate/hardware/api-server.ts'
import { Simulation } from '../../simulate/kernel/simulation.ts'
import {
  type DeviceProfile,
  deviceCosts,
  deviceProfiles,
  readingTokensPerS,
  servicePrices,
} from '../../simulate/paper/disco/profiles.ts'
import { promptOfLength } from '../hat/workload.ts'
import type { LatencyTrace, Shape } from './data.ts'
import { comparedMethods, constrainedSides, type MethodName } from './methods.ts'
import type { ReplayedAnswer } from './replay.ts'
import { answerBy, dispatcherOf, type SidePrices } from './replayed-device.ts'
import { startSlowProxy } from './slow-proxy.ts'
import { type ReplayRequest, requestsOf } from './workload.ts'

/** Real answers are faster than the paper's by this factor, and so are devices, latencies and readers. */
export const timeScale = 2
export const liveTrace = 'replicate_70b'
export const liveBudget = 0.4
const maxLiveTokens = 40
/** Requests to the server alone, after which the agent no longer asks its bridge for F. They teach it the server's TTFT. */
const liveLessons = 24
const lessonsAtOnce = 12
/** Methods of the requests that count, in turn. */
const turns = ['plan', 'server only', 'plan', 'device only'] as const

/** How one answer went, by the client's clock or the replay's. */
export interface LiveFigures {
  readonly ttftMs: number
  /** From the request to the last token. */
  readonly tookMs: number
  /** By the paper's prices. */
  readonly dollars: number
  readonly hasMigrated: boolean
}

/** A real answer beside its replay. */
export interface LiveRun {
  readonly measured: 'live'
  readonly method: MethodName
  readonly device: string
  readonly promptTokens: number
  readonly outputTokens: number
  readonly live: LiveFigures
  readonly replay: LiveFigures
}

interface LiveOptions {
  readonly bundle: string
  readonly smallModel: string
  readonly dialogues: readonly FilePrompt[]
  readonly trace: LatencyTrace
  readonly shapes: readonly Shape[]
  /** Of each agent, without lessons. */
  readonly requests: number
  readonly io: Io
  progress(line: string): void
}

interface LiveRequest extends ReplayRequest {
  readonly method: MethodName
  readonly counts: boolean
}

/** Prices with which the limited side is the dearer one whatever a token's energy is. */
const settings: Readonly<Record<ReportedSide, { readonly args: readonly string[]; readonly prices: SidePrices }>> = {
  server: {
    args: ['--server-price', '0.40/0.40', '--energy-price', '0'],
    prices: { remote: servicePrices['LLaMA-3.1-70b']!, local: { prompt: 0, output: 0 } },
  },
  device: {
    args: ['--server-price', '0/0'],
    prices: { remote: { prompt: 0, output: 0 }, local: { prompt: 1e-6, output: 1e-6 } },
  },
}

/**
 * Three agents with the paper's devices, and a bridge whose model answers as slowly as a trace: real streams, each beside the
 * replay of the same request with the same latencies. First the server is limited, then the devices.
 */
export async function measureLive(options: LiveOptions): Promise<LiveRun[]> {
  const runs: LiveRun[] = []
  for (const constrained of constrainedSides) {
    await using cluster = await startLiveCluster(options, constrained)
    const measured = await Promise.all(cluster.devices.map((device) => measureDevice(device, constrained, options)))
    runs.push(...measured.flat())
    options.progress(`live, ${constrained} limited: ${measured.flat().length} answers`)
  }
  return runs
}

interface LiveDevice {
  readonly index: number
  readonly profile: DeviceProfile
  readonly apiUrl: string
  /** Latencies of the requests to the server that follow; the last one repeats. */
  serve(latencies: readonly ApiLatency[]): void
}

const scaledProfiles: readonly DeviceProfile[] = deviceProfiles.map(({ prefillTokensPerS, decodeTokensPerS, ...profile }) => {
  const scaled = { prefillTokensPerS: timeScale * prefillTokensPerS, decodeTokensPerS: timeScale * decodeTokensPerS }
  // A step takes a constant time beside that of its tokens; decoding has one token.
  return { ...profile, ...scaled, startMs: 1_000 / scaled.decodeTokensPerS - 1_000 / scaled.prefillTokensPerS }
})

function startLiveCluster({ bundle, smallModel, io }: LiveOptions, constrained: ReportedSide) {
  return Cluster.assembled({ bundle, env: io.env, signal: io.signal }, async (cluster) => {
    const bridge = await cluster.startBridge()
    const { mqttUrl, httpUrl, dataUrl } = bridge.ready
    const startDevice = async (profile: DeviceProfile, index: number): Promise<LiveDevice> => {
      let waiting: ApiLatency[] = []
      const next = () => (waiting.length > 1 ? waiting.shift()! : waiting[0]!)
      const proxy = await cluster.attach(startSlowProxy(new URL(httpUrl), next))
      const { startMs = 0, prefillTokensPerS } = profile
      const policy = ['--mode', 'auto', '--constrained', constrained, '--budget-share', String(liveBudget)]
      const agent = await cluster.startAgent({
        id: `device-${index + 1}`,
        bridges: [mqttUrl],
        pace: { stepMs: startMs, rowMs: 1_000 / prefillTokensPerS },
        args: [
          ...['--slm', smallModel, '--server', 'bridge', '--data-url', dataUrl.replace(`:${portOf(dataUrl)}`, `:${proxy.port}`)],
          // DiSCo has two ways of answering: a third one, HAT, would pass the proxy undelayed.
          ...['--no-hat', ...policy],
          ...settings[constrained].args,
        ],
      })
      const serve = (latencies: readonly ApiLatency[]) => {
        waiting = [...latencies]
      }
      const { apiUrl } = agent.ready
      await untilConnected(apiUrl, io.signal)
      return { index, profile, apiUrl, serve }
    }
    return { devices: await Promise.all(scaledProfiles.map(startDevice)) }
  })
}

/** An agent is ready before it has heard of its bridge. */
async function untilConnected(apiUrl: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    const response = await fetch(`${apiUrl}/health`, { signal })
    const { bridge } = (await response.json()) as { readonly bridge: string }
    if (bridge === 'connected') return
    await systemClock.sleep(100, signal)
  }
}

/** One request after the other, then the replay of all of them. */
async function measureDevice(device: LiveDevice, constrained: ReportedSide, options: LiveOptions): Promise<LiveRun[]> {
  const requests = liveRequests(device, constrained, options)
  const answers: LiveAnswer[] = []
  for (let i = 0; i < liveLessons; i += lessonsAtOnce) {
    const batch = requests.slice(i, Math.min(i + lessonsAtOnce, liveLessons))
    device.serve(batch.map(({ server }) => server))
    answers.push(...(await Promise.all(batch.map((request, nth) => ask(device, request, i + nth, options)))))
  }
  for (const [i, request] of requests.slice(liveLessons).entries()) {
    device.serve([request.server, request.serverAgain])
    answers.push(await ask(device, request, liveLessons + i, options))
  }
  const known = { prompts: createTokenCounts(), answers: createTokenCounts() }
  const { prices } = settings[constrained]
  const common = { profile: device.profile, prices, ttftMs: createTtft(), tokensPerS: timeScale * readingTokensPerS }
  const simulation = new Simulation(0)
  const dispatchers = new Map<MethodName, AnswerDispatcher>()
  return requests.flatMap((request, i): LiveRun[] => {
    const { method, promptTokens, outputTokens, counts } = request
    const isPlanned = method.startsWith('DiSCo')
    if (isPlanned) known.prompts.record(promptTokens)
    const of = { ...common, method, budget: isPlanned ? liveBudget : null, maxTokens: outputTokens }
    const replayedDevice = { ...of, prices: isPlanned ? prices : undefined }
    const dispatcher = dispatchers.get(method) ?? dispatcherOf(replayedDevice, known)
    dispatchers.set(method, dispatcher)
    const replayed = answerBy(simulation, replayedDevice, dispatcher, request, 'end')
    known.answers.record(outputTokens)
    if (!counts) return []
    const { work, ...live } = answers[i]!
    const dollars = (spent: Readonly<Record<Side, SideWork>>) => dollarsOf(spent, device.profile, constrained)
    return [
      {
        measured: 'live',
        method,
        device: device.profile.name,
        promptTokens,
        outputTokens,
        live: { ...live, dollars: dollars(work) },
        replay: { ...figuresOf(replayed), dollars: dollars(replayed.work) },
      },
    ]
  })
}

function liveRequests({ index }: LiveDevice, constrained: ReportedSide, { trace, shapes, requests }: LiveOptions): LiveRequest[] {
  const seed = 10 * index + (constrained === 'server' ? 1 : 2)
  const latencies = trace.latencies.map(({ ttftMs, tokenMs }) => ({ ttftMs: ttftMs / timeScale, tokenMs: tokenMs / timeScale }))
  const random = { shapes: seededRandom(seed), latencies: seededRandom(1_000 + seed) }
  return requestsOf(shapes, latencies, liveLessons + requests, random).map((request, i): LiveRequest => {
    if (i < liveLessons) return { ...request, outputTokens: 1, method: 'server only', counts: false }
    const turn = turns[(i - liveLessons) % turns.length]!
    const outputTokens = Math.min(maxLiveTokens, request.outputTokens)
    return { ...request, outputTokens, method: turn === 'plan' ? comparedMethods[constrained].disco : turn, counts: true }
  })
}

interface LiveAnswer extends Omit<LiveFigures, 'dollars'> {
  readonly work: Readonly<Record<Side, SideWork>>
}

const noWork: SideWork = { promptTokens: 0, tokens: 0 }
const modeOf = (method: MethodName) => (method === 'server only' ? 'cloud' : method === 'device only' ? 'local' : 'auto')

async function ask(device: LiveDevice, request: LiveRequest, nth: number, { dialogues, io }: LiveOptions): Promise<LiveAnswer> {
  const { promptTokens, outputTokens, method } = request
  const { ids } = promptOfLength(dialogues, (7 * nth + 31 * device.index) % dialogues.length, promptTokens, undefined)
  const body = {
    prompt: [...ids],
    max_tokens: outputTokens,
    ignore_eos: true,
    temperature: 0,
    brim: { mode: modeOf(method), tokens_per_s: timeScale * readingTokensPerS },
  } as const
  const sentMs = systemClock.nowMs()
  const piecesMs: number[] = []
  const { report } = await streamAnswerFrom({ server: 'agent', url: device.apiUrl }, body, io.signal, {
    onText: () => piecesMs.push(systemClock.nowMs() - sentMs),
  })
  const [ttftMs] = piecesMs
  const { disco } = report
  if (ttftMs === undefined || !disco) throw new BrimError('RUNTIME_FAILED', 'an answer has no text, or no report of its dispatch')
  return {
    ttftMs,
    tookMs: piecesMs.at(-1)!,
    hasMigrated: disco.migrations.some(({ succeeded }) => succeeded),
    work: { local: disco.cost.device ?? noWork, remote: disco.cost.server ?? noWork },
  }
}

const figuresOf = ({ ttftMs, gapsMs, hasMigrated }: ReplayedAnswer) => ({ ttftMs, tookMs: ttftMs + sum(gapsMs), hasMigrated })

function dollarsOf(work: Readonly<Record<Side, SideWork>>, profile: DeviceProfile, constrained: ReportedSide): number {
  return costOf(servicePrices['LLaMA-3.1-70b']!, work.remote) + costOf(deviceCosts(profile, constrained), work.local)
}
