import { readSse } from '../../../core/wire/openai/sse-reader.ts'
import { Cluster } from '../../cluster/cluster.ts'
import { stepsFromNow } from '../../cluster/logged-steps.ts'
import { laboratoryProgram } from '../../cluster/processes.ts'
import { promptOfLength } from '../hat/workload.ts'
import type { Setup } from './measure.ts'
import type { RestartTurn } from './runs.ts'
import { argsOf } from './servers.ts'

const promptTokens = 1_000
/** Of a next turn, beyond the first one. */
const turnTokens = 30
/** Events of an answer before the bridge is killed. */
const eventsBefore = 48
/** Those of its rest, among which the longest pause is looked for: the first of them may come from the journal. */
const eventsAfter = 32

/** Kills a bridge during an answer, and asks the next process, in turns. */
export async function measureRestarts({ bundle, plan, dialogues, eos, cores, io, progress }: Setup): Promise<RestartTurn[]> {
  await using cluster = await Cluster.assembled({ bundle, env: io.env, signal: io.signal }, async (parts) => ({
    bridge: await parts.startBridge({ args: argsOf('files'), core: cores?.bridge, program: laboratoryProgram }),
  }))
  const { bridge } = cluster
  let asked = 0
  const nextPrompt = (tokens: number) => promptOfLength(dialogues, (11 * asked++) % dialogues.length, tokens, eos).ids
  const ask = (prompt: readonly number[], maxTokens: number, events?: number) => {
    const body = { prompt, max_tokens: maxTokens, ignore_eos: true, temperature: 0, user: 'restarts', stream: true }
    const request = { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
    return readEvents(`${bridge.ready.httpUrl}/v1/completions`, request, io.signal, events)
  }
  const turns: RestartTurn[] = []
  for (let turn = 0; turn < plan.restarts; turn++) {
    progress(`restart ${turn + 1} of ${plan.restarts}`)
    const [answered, interrupted] = [nextPrompt(promptTokens + turnTokens), nextPrompt(promptTokens)]
    await ask(answered.slice(0, promptTokens), eventsAfter)
    const { lastId } = await ask(interrupted, 2 * (eventsBefore + eventsAfter), eventsBefore)
    await bridge.restart()
    // Code and buffers become as warm as those of the process before.
    await ask(nextPrompt(promptTokens), eventsAfter)
    const cold = await ask(nextPrompt(promptTokens), eventsAfter)
    const url = `${bridge.ready.httpUrl}/v1/answers/${lastId.slice(0, lastId.lastIndexOf('/'))}/events`
    const rowsOfRest = await rowsFromNow(bridge.ready.httpUrl, io.signal)
    const rest = await readEvents(url, { headers: { 'last-event-id': lastId } }, io.signal)
    const continuedRows = await rowsOfRest()
    const rowsOfNext = await rowsFromNow(bridge.ready.httpUrl, io.signal)
    const next = await ask(answered, eventsAfter)
    turns.push({
      coldMs: cold.timesMs[0]!,
      continuedMs: afterLongestPause(rest.timesMs.slice(0, eventsAfter)),
      nextTurnMs: next.timesMs[0]!,
      continuedRows,
      nextTurnRows: await rowsOfNext(),
    })
  }
  return turns
}

async function rowsFromNow(httpUrl: string, signal: AbortSignal): Promise<() => Promise<number>> {
  const stepsSince = await stepsFromNow(httpUrl, signal)
  return async () => (await stepsSince()).reduce((rows, { tokens }) => rows + tokens, 0)
}

/** When each event with text came, since the request. @param events after so many the client goes away; absent: with the last */
async function readEvents(url: string, request: RequestInit, signal: AbortSignal, events = Number.POSITIVE_INFINITY) {
  const leaving = new AbortController()
  const startedMs = performance.now()
  const response = await fetch(url, { ...request, signal: AbortSignal.any([signal, leaving.signal]) })
  if (!response.ok || !response.body) throw new Error(`the bridge answered with status ${response.status}`)
  const timesMs: number[] = []
  let lastId = ''
  for await (const data of readSse(response.body, { onId: (id) => (lastId = id) })) {
    if (data === '[DONE]') break
    const [choice] = (JSON.parse(data) as { choices: readonly { text?: string }[] }).choices
    if (choice?.text) timesMs.push(performance.now() - startedMs)
    if (timesMs.length === events) break
  }
  leaving.abort()
  if (timesMs.length === 0) throw new Error('an answer had no text')
  return { timesMs, lastId }
}

/** When the first event after the longest time without one came. */
function afterLongestPause(timesMs: readonly number[]): number {
  const pauses = timesMs.map((atMs, at) => atMs - (timesMs[at - 1] ?? 0))
  return timesMs[pauses.indexOf(Math.max(...pauses))]!
}
