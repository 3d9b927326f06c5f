import type { BenchDocument } from '../../../frame/bench.ts'
import { gainOf, runsOf } from './cells.ts'
import { answerTokens, batchOf, type Plan, questions, studied, testbed } from './settings.ts'

const percent = (share: number): string => `${(100 * share).toFixed(0)} %`

export function findingsText(document: BenchDocument): string {
  const runs = runsOf(document)
  const [pice, brim] = [gainOf(runs, 'PICE', studied), gainOf(runs, 'Brim', studied)]
  return [
    `- PICE over cloud-only with Llama3-70B: ${pice.throughput.toFixed(2)} times the throughput (the paper 1.59), latency −${percent(pice.latencyCut)} (−38 %).
  With this project's additions ${brim.throughput.toFixed(2)} times, and −${percent(brim.latencyCut)}: plans that count sketches being written and
  devices that work meanwhile, prefixes of prompts computed once, sixteen sentences in a packed step.
- As in the paper, the gain shrinks with the cloud's model, and routing with the small models that exceed its devices loses to cloud-only
  with the 72B and the 70B.
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
