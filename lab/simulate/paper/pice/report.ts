import type { BenchDocument } from '../../../frame/bench.ts'
import { gainOf, runOf, runsOf, select } from './cells.ts'
import type { Run } from './runs.ts'
import { answerTokens, batchOf, type Method, moreQuestions, type Plan, questions, studied, testbed } from './settings.ts'

const percent = (share: number): string => `${(100 * share).toFixed(0)} %`

/** What the number of questions does: the longer requests arrive, the less the last answers weigh. */
function moreText(runs: readonly Run[]): string {
  const [brim, cloud] = (['Brim', 'cloud-only'] as const).map((method) =>
    select(runs, { measured: 'cause', method, model: studied, requests: moreQuestions }).at(0),
  )
  if (!brim || !cloud) return ''
  return `With ${moreQuestions} in place of ${questions} questions it is ${(brim.answersPerMin / cloud.answersPerMin).toFixed(2)} times.`
}

export function findingsText(document: BenchDocument): string {
  const runs = runsOf(document)
  const [pice, brim] = [gainOf(runs, 'PICE', studied), gainOf(runs, 'Brim', studied)]
  const perMin = (method: Method) => runOf(runs, 'table', method).answersPerMin
  const overStatic = (method: Method) => (perMin(method) / perMin('PICE static')).toFixed(2)
  return [
    `- PICE over cloud-only with Llama3-70B: ${pice.throughput.toFixed(2)} times the throughput (the paper 1.59), latency −${percent(pice.latencyCut)} (−38 %).
  With this project's additions ${brim.throughput.toFixed(2)} times, and −${percent(brim.latencyCut)}: plans that count sketches being written and
  devices that work meanwhile, devices that use no abler small model than planned while others wait, prefixes of prompts computed once, sixteen
  sentences in a packed step. ${moreText(runs)}
- As in the paper, the gain shrinks with the cloud's model, and routing with the small models that exceed its devices loses to cloud-only
  with the 72B and the 70B.
- Static scheduling expands with the smallest model, which is the quickest; PICE opens abler ones while they are in time by Eq. 2, and they take the
  devices' time that waiting sketches need: its throughput here is ${overStatic('PICE')} of static scheduling's (Fig. 6), Brim's ${overStatic('Brim')}.
- Not simulated: the answers' quality (Table IV, Figs. 6 b and c, 8 to 11), for which a simulator has no texts. Plans use the MMLU of
  the small models (Table I) as their ability.`,
  ].join('\n')
}

export function conditionsText({ conditions }: BenchDocument): string {
  const { seeds } = conditions.plan as Plan
  const { cloud, device, answersAtOnce, sentencesAtOnce } = testbed
  return `- Simulated: nothing of it is a measurement of a GPU or a Jetson. Means of ${seeds} seeds; plans, queue, batches, models and groups of
  sentences are decided by the bridge's and the agent's own policy (core/policy/pice).
- Four A100 80GB and four Jetson AGX Orin 64GB on 100 Mbit/s, ${questions} questions (MT-bench and Vicuna-bench), answers of ${answerTokens.mean} tokens in the mean
  (log-normal, σ ${answerTokens.sigma}), 1.5 times the maximum batch per minute (Poisson): ${batchOf('qwen2.5-72b')} for the 72B, the others' in proportion to
  Table I, the 32B's by its weights.
- Constants, the same for all cells: decoding reaches ${percent(cloud.decode)} of the compute that the presets give to prompts, and each stream of a
  step costs ${cloud.streamMs} ms of the framework: fitted to the twelve cells of cloud-only. Devices reach ${percent(device.memory)} of the preset's memory rate, and a layer
  costs ${device.layerMs} ms more (PyTorch, Transformers): fitted to the throughputs of edge-only. A device decodes ${answersAtOnce} answers or ${sentencesAtOnce} sentences
  at once; with 16 sentences PICE's throughput is up to a tenth higher and its latency about a third less.
- PICE itself: Eq. 2 as printed, with the queue alone, one waiting sketch per device, every group with a whole prompt of its own.
- A router gives 40 % of the questions to the largest small model that the LLM exceeds ten times.`
}
