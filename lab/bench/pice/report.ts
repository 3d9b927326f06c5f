import type { BenchDocument, BenchReport } from '../../frame/bench.ts'
import { markdownTable } from '../../frame/page.ts'
import { select } from '../../frame/runs.ts'
import { toDigits } from '../../frame/tables.ts'
import { demoModelText } from '../demo-model.ts'
import { linkDelayMs } from './cluster.ts'
import { piceFigure } from './figure.ts'
import { runsOf } from './figures.ts'
import { methodNames, methods } from './methods.ts'
import { paperLoad } from './plan.ts'
import { keptPiceRun } from './runs.ts'
import { answersText } from './shown-answers.ts'
import { capacityOf, machineOf, planOf, tablesOf } from './tables.ts'

export const piceReport: BenchReport = {
  title: 'PICE and its baselines',
  contents: 'every request with its plan and tokens',
  figure: piceFigure,
  keptRuns: (document) => select(runsOf(document), { measured: 'compared' }).map(keptPiceRun),
  figureText: 'Throughput and latency by load, queue length and bandwidth; tokens of the LLM; ROUGE-1',
  tables: tablesOf,
  findings,
  conditions: (document) => [modelText(document), methodText(document), methodTable(), answersText(document)].join('\n\n'),
}

function findings(document: BenchDocument): string {
  const { cloudPerS, edgePerS, cloudTokenS, edgeTokenS, cloudTokens, edgeTokens } = capacityOf(document)
  const { summary } = document
  return [
    `- Alone the cloud gives ${(60 * cloudPerS).toFixed(1)} answers a minute (${cloudTokens.toFixed(0)} tokens each), the four devices ${(60 * edgePerS).toFixed(1)}
  (${edgeTokens.toFixed(0)} tokens each). A token of one answer alone takes ${(1_000 * cloudTokenS).toFixed(1)} ms in the cloud and ${(1_000 * edgeTokenS).toFixed(1)} ms on one device:
  c = ${(edgeTokenS / cloudTokenS).toFixed(2)}.`,
    `- The paper's 1.5 times the maximum batch per minute is ${paperLoad.toFixed(2)} times what its cloud serves. At a load of x no method can exceed x times
  the throughput of cloud-only, so that 1.5 is the limit of \`throughputOverCloudOnlyAt15\`.`,
    ...(summary.perplexityOverCloudOnly == null
      ? []
      : [
          `- Quality: PICE's answers share ${written(summary.rouge1)} of their words with the LLM's own (ROUGE-1 F), and the LLM finds them
  ${written(summary.perplexityOverCloudOnly)} times as perplexing. Greedy answers of the LLM alone have ROUGE-1 1 by definition, and the least
  perplexity of all texts that it could write.`,
        ]),
  ].join('\n')
}

const written = (value: number | null | undefined) => toDigits(value, 2)

function modelText(document: BenchDocument): string {
  return `${demoModelText(document)}; small models ${(document.conditions.smallModels as string[]).join(', ')}. Temperature 0.`
}

function methodText(document: BenchDocument): string {
  const { conditions } = document
  const machine = machineOf(document)
  const { devices, paces, answerTokens, warmAnswers } = planOf(document)
  const { cloud, device } = paces
  const pace = ({ stepMs, rowMs }: typeof cloud) => `${stepMs.toFixed(2)} ms + ${rowMs.toFixed(2)} ms for each row`
  const batchMs = ({ stepMs, rowMs }: typeof cloud) => stepMs + 16 * rowMs
  return `- One bridge and ${devices} agents, each a process with one thread per operator, on the same cores. Models, queue, plans and
  messages are real; the durations of steps stand for other machines: a step of the cloud takes
  ${pace(cloud)}, which with 16 rows is ${(batchMs(cloud) / batchMs(machine)).toFixed(1)} times this machine's (${pace(machine)}, measured on a bridge without
  devices), a step of a device ${pace(device)}. After its computation a step waits, which leaves the cores to the others.
- Why these: a step serves at most 16 answers (the paper's batch: 20), and takes 1.34 times as long as one of a single answer, because a GPU
  decodes a batch in nearly the time of one answer. Devices are so slow that four of them, one question at a time each, serve about
  0.37 of what the cloud serves, as the paper's Jetsons with Llama3-8B beside its cloud with Llama3-70B (6.03 and 16.33 a minute).
- Prompts: held-out ones of the tasks ${(conditions.tasks as string[]).join(', ')}; answers end after
  ${answerTokens} tokens at the latest. Requests arrive by a Poisson process, the same times and prompts for each method of a seed.
- Before the runs, the bridge profiles its devices, and gives ${warmAnswers} answers in full and ${warmAnswers} by sketch: it measures its LLM and learns which
  questions suit sketches.
- The capacity of the cloud is what it answers while all of its 16 places are taken, partial answers included, as measured before the runs.
- edge-only and what routers give to devices are jobs (\`slm.generate\`), which the queue gives to idle devices. The routers know each
  question's length, as the LLM foresees it, or its difficulty, which is how little the small model's answer has in common with the LLM's
  (1 − ROUGE-1 F): both were measured before and cost them nothing. They give devices the share of the questions that keeps both sides
  equally busy.
- Latency is the time from the request to the end of the answer, at the client. Throughput counts from the first request to the last
  answer. LLM tokens include foresight and sketch; device tokens include all candidates.
- Confidence is Eq. 3 with the LLM's probabilities, and its own full answer in the place of the sketch. Perplexity is the LLM's own, of
  the whole answer after the question, without an instruction.
- Shaped links have ${linkDelayMs} ms of delay each way. *cores*: CPU time per second of all processes but the clients'.
- Ten sentences on one device: a sketch of key words, expanded in one job and in ten jobs of one sentence, one after another; times are
  those of prefill and decoding on the device.`
}

function methodTable(): string {
  const rows = methodNames.map((name) => {
    const { route, mode, bridge } = methods[name]
    return [name, route, route === 'device' ? '–' : mode, bridge.length === 0 ? '–' : `\`${bridge.join(' ')}\``]
  })
  return markdownTable(['method', 'side chosen by', 'mode at the bridge', 'bridge with'], rows)
}
