import type { LoggedStep } from '../../../cloud-bridge/serving/step-log.ts'
import { systemClock } from '../../../core/base/clock.ts'
import { seededRandom } from '../../../core/base/random.ts'
import type { Bed, Results } from './bed.ts'
import { type HatCluster, startHatCluster } from './cluster.ts'
import { type LinkConditions, linkShape } from './links.ts'
import { askAlone, type UncheckedAnswer } from './load.ts'
import { encodeSteps, type HatRun, type Measured } from './runs.ts'
import type { StrategyName } from './strategies.ts'
import { type HatPrompt, promptOfLength, type WorkloadName } from './workload.ts'

/** A cluster of one device for each strategy, which answer one request at a time, in turn. */
export interface Turns extends AsyncDisposable {
  ask(measured: Measured, workload: WorkloadName, prompts: readonly HatPrompt[], maxTokens: number): Promise<void>
  /** Asks each prompt and then a second turn (prompt, answer and new tokens); only the second turn is recorded. */
  askTwice(prompts: readonly HatPrompt[], maxTokens: number): Promise<void>
  /** Adds the recorded answers to the results. */
  addTo(results: Results): void
}

/** The middle group of links. */
const linkGroup = 1
/** Distance between the times of the link's traces at which two prompts are asked. */
const traceStepMs = 20_000
/** Time for the handle of a cached prefix to reach the device, beyond the round trip. */
const handleMs = 200
/** New tokens of a second turn. */
const newTokens = 64

type Answer = UncheckedAnswer & { readonly steps: readonly LoggedStep[] }

export async function startTurns(
  bed: Bed,
  strategies: readonly StrategyName[],
  links: LinkConditions,
  seed: number,
): Promise<Turns> {
  const { bundle, cores, io, headMs, dialogues, eos } = bed
  const { stateBytes, rttMs } = links
  const clusters: HatCluster[] = []
  const measured: { of: Pick<HatRun, 'measured' | 'strategy' | 'workload'>; answers: Answer[] }[] = []
  let asked = 0
  const stop = async () => {
    await Promise.all(clusters.map((cluster) => cluster[Symbol.asyncDispose]()))
  }

  async function askOne(cluster: HatCluster, prompt: HatPrompt, user: string, maxTokens: number): Promise<Answer> {
    const options = { prompt, maxTokens, user, atMs: asked * traceStepMs, stateBytes, rttMs, headMs }
    return askAlone(cluster, options, io.signal)
  }

  function record(of: Pick<HatRun, 'measured' | 'strategy' | 'workload'>, answer: Answer): void {
    const same = measured.find(
      (each) => each.of.measured === of.measured && each.of.strategy === of.strategy && each.of.workload === of.workload,
    )
    if (same) same.answers.push(answer)
    else measured.push({ of, answers: [answer] })
  }

  try {
    for (const strategy of strategies) {
      const shapes = [linkShape(linkGroup, links, seededRandom(seed))]
      clusters.push(await startHatCluster({ bundle, strategy, workload: 'short', shapes, seed, cores, io }))
    }
    const warmUp = promptOfLength(dialogues, 0, 160, eos)
    for (const cluster of clusters) await askOne(cluster, warmUp, 'warm-up', 16)
  } catch (error) {
    await stop()
    throw error
  }
  return {
    async ask(what, workload, prompts, maxTokens) {
      for (const [at, prompt] of prompts.entries()) {
        bed.progress(`${what}, RTT ${rttMs} ms: ${workload} prompt ${at + 1} of ${prompts.length}, ${prompt.ids.length} tokens`)
        asked += 1
        for (const cluster of clusters)
          record(
            { measured: what, strategy: cluster.strategy, workload },
            await askOne(cluster, prompt, `${what} ${workload} ${at}`, maxTokens),
          )
      }
    },
    async askTwice(prompts, maxTokens) {
      for (const [at, prompt] of prompts.entries()) {
        bed.progress(`second turn ${at + 1} of ${prompts.length}, after ${prompt.ids.length} tokens`)
        asked += 1
        const next = promptOfLength(dialogues, at, newTokens, eos)
        for (const cluster of clusters) {
          const user = `conversation ${at}`
          const first = await askOne(cluster, prompt, user, maxTokens)
          await systemClock.sleep(handleMs + rttMs, io.signal)
          const ids = [...prompt.ids, ...first.tokenIds, ...next.ids]
          const second = await askOne(cluster, { id: `${prompt.id}+${next.id}`, ids }, user, maxTokens)
          record({ measured: 'second-turn', strategy: cluster.strategy, workload: 'long' }, second)
        }
      }
    },
    addTo({ runs, answers: unchecked }) {
      for (const { of, answers } of measured) {
        const samples = answers.map(({ sample }) => sample)
        const steps = encodeSteps(answers.flatMap((answer) => answer.steps))
        runs.push({ ...of, seed, devices: 1, rttMs, perS: null, utilisation: null, isVoid: false, samples, steps })
        unchecked.push({ strategy: of.strategy, answers })
      }
    },
    [Symbol.asyncDispose]: stop,
  }
}
