import { basename } from 'node:path'
import { settingsOf } from './candidates.ts'
import type { Goal, Tried } from './choice.ts'
import { optionsOf } from './settings.ts'
import type { Situation } from './situation.ts'

/** Caps leave room for a day that asks twice as much. */
const headroom = 2
const secondsPerDay = 86_400

/**
 * Configuration files that `brim agent run --config` and `brim bridge run --config` accept, with the reasons as comments.
 * @param best with the settings that are written
 * @param way the same with the defaults of agent and bridge
 */
export function configFiles(situation: Situation, goal: Goal, best: Tried, way: Tried, tried: readonly Tried[]) {
  const { candidate, result } = best
  const settings = settingsOf(candidate)
  const head = [
    `# By brim simulate what-if ${basename(situation.trace)}: ${candidate.name} is best for ${goal}, of ${tried.length} ways that were simulated.`,
    `# ${situation.devices} × ${situation.board} with ${situation.smallModel}, ${situation.gpus} × ${situation.gpu} with ${situation.model}.`,
    ...(candidate.note ? [`# ${candidate.note}`] : []),
    `# ${figures(best)}`,
    ...(way === best ? [] : [`# with the defaults: ${figures(way)}`]),
    ...reasons(best, tried),
  ]
  const { serverPrice, readingSpeed } = situation
  const usesServer = 'server' in candidate.agent
  const agent = {
    ...candidate.agent,
    ...optionsOf('agent', settings),
    'reading-speed': readingSpeed,
    ...(usesServer && serverPrice !== undefined && { 'server-price': serverPrice }),
    ...budgets(situation, best, usesServer),
  }
  const kv = 'policy' in settings && result.engines[0] && { 'kv-budget-bytes': Math.floor(result.engines[0].kvBytes) }
  const bridge = { ...candidate.bridge, ...optionsOf('bridge', settings), ...kv }
  return {
    agent: text([...head, '# Add id, bridge, and the folders of the models: bundle, slm.'], agent),
    bridge: text([...head, '# Add bundle, the folder of the model.'], bridge),
  }
}

/** Why the others were not chosen: the best of each way of answering beside the chosen one. */
function reasons({ candidate }: Tried, others: readonly Tried[]): string[] {
  const modes = new Set([candidate.mode])
  return others.flatMap((other) => {
    if (modes.has(other.candidate.mode)) return []
    modes.add(other.candidate.mode)
    return [`# ${other.candidate.name}: ${figures(other)}`]
  })
}

function figures({ result: { all } }: Tried): string {
  const { ttftMs, latencyMs, work, answered, requests } = all
  const dollars = work.dollars > 0 ? `, $${digits((1_000 * work.dollars) / answered)} per 1,000 answers` : ''
  const lost = answered < requests ? `, ${requests - answered} of ${requests} not answered` : ''
  return `TTFT P95 ${digits(ttftMs.p95)} ms, whole answer P95 ${digits(latencyMs.p95 / 1_000)} s, ${digits(work.joules / answered)} J per answer${dollars}${lost}`
}

function budgets({ devices, serverPrice }: Situation, { result }: Tried, usesServer: boolean) {
  const { durationS, all } = result
  const perDay = (sum: number) => Number(((headroom * sum * secondsPerDay) / durationS / devices).toPrecision(2))
  const dollars = perDay(all.work.dollars)
  const joules = perDay(all.work.joules)
  return {
    ...(usesServer && serverPrice !== undefined && dollars > 0 && { 'budget-dollars': dollars }),
    ...(all.work.deviceOutputTokens > 0 && joules > 0 && { 'budget-joules': joules }),
  }
}

const digits = (value: number): string => String(Number(value.toPrecision(3)))

function text(comments: readonly string[], options: Readonly<Record<string, unknown>>): string {
  const lines = Object.entries(options).map(([name, value]) => `${name}: ${value}`)
  return `${[...comments, ...(lines.length === 0 ? ['{}'] : lines)].join('\n')}\n`
}
