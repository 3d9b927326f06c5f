import type { AnswerRequest } from '../../core/answer/endpoint/endpoint.ts'
import type { WayFigures } from '../../core/answer/endpoint/figures.ts'
import type { DeviceMode } from '../../core/kit/base/answer-modes.ts'
import type { DispatchPlan } from '../../core/policy/disco/answer-dispatcher.ts'
import type { Forecast } from '../../core/policy/disco/forecast.ts'
import type { Side } from '../../core/policy/disco/state.ts'
import { againstCloud } from '../../core/policy/hat/against-cloud.ts'
import type { LocalCandidate, RemoteCandidate } from './candidate.ts'

type Candidate = LocalCandidate | RemoteCandidate

/** A way of answering that there is, and what it would take. */
export interface ForeseenWay {
  readonly candidate: Candidate
  readonly forecast: Forecast
}

interface Explained {
  readonly ways: readonly ForeseenWay[]
  readonly mode: DeviceMode
  readonly request: AnswerRequest
  /** That the mode allows, and that can read the prompt. */
  readonly allowed: {
    readonly local?: { readonly candidate: Candidate } | undefined
    readonly remotes: readonly { readonly candidate: Candidate }[]
  }
  /** That were chosen among them. */
  readonly sides: Readonly<Partial<Record<Side, Candidate | undefined>>>
  /** As the budget admits them. */
  readonly plan: Pick<DispatchPlan, 'dispatch' | 'sides'>
  readonly exhausted: string | undefined
}

/** What each way of answering was expected to take, and when it starts or why it does not: those that are not there, too. */
export function explainWays(explained: Explained): WayFigures[] {
  const { ways, sides } = explained
  const shown = ways.map(({ candidate, forecast }): WayFigures => {
    const { firstMs, endMs, dollars } = forecast
    return {
      way: wayOf(candidate),
      model: candidate.endpoint.model.name,
      firstTextMs: finite(firstMs),
      endMs: finite(endMs),
      dollars: dollars ?? null,
      isChosen: candidate === sides.local || candidate === sides.remote,
      reason: reasonOf(candidate, forecast, explained) + (wayOf(candidate) === 'hat' ? besideCloud(forecast, ways) : ''),
    }
  })
  const has = (...names: readonly WayFigures['way'][]) => shown.some(({ way }) => names.includes(way))
  const absent: WayFigures[] = []
  if (!has('slm')) absent.push(missing('slm', 'no small model: start the agent with --slm'))
  if (!has('server', 'bridge', 'sketches')) absent.push(missing('server', 'no server: start the agent with --server'))
  if (!has('hat')) absent.push(missing('hat', 'no split model: start the agent with --bundle'))
  return [...shown, ...absent]
}

const missing = (way: WayFigures['way'], reason: string): WayFigures => {
  return { way, model: null, firstTextMs: null, endMs: null, dollars: null, isChosen: false, reason }
}

function wayOf(candidate: Candidate): WayFigures['way'] {
  if (candidate.spender !== 'server') return candidate.spender
  if (!('way' in candidate)) return 'server'
  return candidate.way ?? 'server'
}

/** What a device that drafts loses or gains beside the cloud alone, once both are measured. */
function besideCloud(hat: Forecast, ways: readonly ForeseenWay[]): string {
  const cloud = ['bridge', 'server'].flatMap((way) => ways.find(({ candidate }) => wayOf(candidate) === way) ?? [])[0]?.forecast
  if (!cloud?.isKnown || !hat.isKnown) return ''
  const [tokenS, cloudTokenS] = [hat, cloud].map(({ firstMs, endMs }) => (endMs - firstMs) / 1_000)
  if (!(tokenS! > 0 && cloudTokenS! > 0)) return ''
  const { isSlower, ratio } = againstCloud({ tokenS: tokenS!, cloudTokenS: cloudTokenS! })
  const times = (isSlower ? ratio : 1 / ratio).toFixed(1)
  return isSlower
    ? `; ${times} times slower per token than the cloud alone, but the text stays here`
    : `; ${times} times as fast per token as the cloud alone`
}

const finite = (ms: number): number | null => (Number.isFinite(ms) ? Math.round(ms) : null)
const secondsText = (ms: number): string => `${(ms / 1_000).toFixed(ms < 10_000 ? 2 : 0)} s`

function reasonOf(candidate: Candidate, forecast: Forecast, { ways, mode, request, allowed, sides, plan, exhausted }: Explained) {
  const side = candidate === sides.local ? 'local' : candidate === sides.remote ? 'remote' : undefined
  if (side) return plan.sides[side] ? startText(plan.dispatch[side]) : (exhausted ?? 'left out by the budget')
  const isAllowed = [allowed.local, ...allowed.remotes].some((reader) => reader?.candidate === candidate)
  if (!isAllowed) return notAllowed(candidate, mode, request)
  const chosen = ways.find((way) => way.candidate === sides.remote)?.forecast
  if (!forecast.isKnown) return 'not asked yet: its times are assumed'
  const laterMs = chosen ? forecast.waitMs - chosen.waitMs : 0
  if (laterMs > 0) return `its reader would wait ${secondsText(laterMs)} longer`
  return chosen && (forecast.dollars ?? 0) > (chosen.dollars ?? 0) ? 'hardly sooner, and dearer' : 'hardly sooner'
}

function startText(startMs: number): string {
  if (startMs === 0) return 'starts at once'
  return Number.isFinite(startMs) ? `starts after ${secondsText(startMs)} without text` : 'starts only where the other one fails'
}

function notAllowed({ spender }: Candidate, mode: DeviceMode, { isPrivate, fallback }: AnswerRequest): string {
  if (spender === 'server' && (isPrivate || mode === 'private')) return 'it would see the text, which is private'
  if (spender === 'slm' && fallback !== 'slm' && ['private', 'cloud', 'sketch'].includes(mode))
    return `in the mode ${mode} only with --fallback slm`
  const uses: Partial<Record<DeviceMode, string>> = { local: 'small model', cloud: 'server', sketch: "bridge's sketches" }
  return uses[mode] ? `the mode ${mode} asks the ${uses[mode]} alone` : 'cannot take this request: its length, form or options'
}
