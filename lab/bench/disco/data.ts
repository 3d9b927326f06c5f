import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { BrimError } from '../../../core/kit/base/errors.ts'
import type { ApiLatency } from '../../simulate/hardware/api-server.ts'
import { parseLatencyTrace } from '../../simulate/traces/latency-trace.ts'
import { parseRequestTrace } from '../../simulate/traces/request-trace.ts'

/** The requests to one provider's model that succeeded, in the order of the file. */
export interface LatencyTrace {
  readonly name: string
  readonly latencies: readonly ApiLatency[]
  /** Requests that failed, which are left out. */
  readonly failed: number
}

/** The length of a question and of its answer. */
export interface Shape {
  readonly promptTokens: number
  readonly outputTokens: number
}

/** Question and answer of the Alpaca data. */
export interface Instruction {
  readonly question: string
  readonly answer: string
}

export interface ReplayData {
  readonly traces: readonly LatencyTrace[]
  readonly instructions: readonly Instruction[]
  readonly shapes: Readonly<Record<PromptSet, readonly Shape[]>>
}

export const promptSets = ['alpaca', 'azure'] as const
export type PromptSet = (typeof promptSets)[number]

const traceNames = [
  'anyscale_7b',
  'anyscale_13b',
  'anyscale_70b',
  'bedrock_13b',
  'bedrock_70b',
  'fireworks_7b',
  'fireworks_13b',
  'fireworks_70b',
  'groq_70b',
  'lepton_7b',
  'lepton_13b',
  'lepton_70b',
  'perplexity_70b',
  'replicate_7b',
  'replicate_13b',
  'replicate_70b',
  'together_7b',
  'together_13b',
  'together_70b',
] as const
export type TraceName = (typeof traceNames)[number]

/**
 * UTF-8 bytes of a token of the Alpaca data: 17 bits a token are 54.40 % less than the text (DiSCo §4.3, cl100k_base). The
 * paper's models are not here, and the demonstration model's small vocabulary has shorter tokens.
 */
export const bytesPerToken = 17 / 8 / (1 - 0.544)
/** The paper's limit of generation. */
export const maxOutputTokens = 128

/** @param folder with `llmperf-api-latency`, `alpaca-demo`, `azure-llm-2023` @throws BrimError REQUEST_INVALID */
export async function readReplayData(folder: string, names: readonly TraceName[] = traceNames): Promise<ReplayData> {
  const instructions = await readInstructions(join(folder, 'alpaca-demo/alpaca_en_demo.jsonl'))
  const azure = ['conv', 'code'].map((kind) => join(folder, `azure-llm-2023/AzureLLMInferenceTrace_${kind}.csv`))
  return {
    traces: await Promise.all(names.map((name) => readLatencies(folder, name))),
    instructions,
    shapes: {
      alpaca: instructions.map(({ question, answer }) => shape(tokensOf(question), tokensOf(answer))),
      azure: (await Promise.all(azure.map(readShapes))).flat(),
    },
  }
}

const tokensOf = (text: string): number => Buffer.byteLength(text) / bytesPerToken

const shape = (promptTokens: number, outputTokens: number): Shape => ({
  promptTokens: Math.max(1, Math.round(promptTokens)),
  outputTokens: Math.min(maxOutputTokens, Math.max(1, Math.round(outputTokens))),
})

const AlpacaLine = z.object({ instruction: z.string(), input: z.string(), output: z.string() })

async function readInstructions(file: string): Promise<Instruction[]> {
  const lines = (await read(file)).trim().split('\n')
  return lines.map((line, i) => {
    try {
      const { instruction, input, output } = AlpacaLine.parse(JSON.parse(line))
      return { question: input === '' ? instruction : `${instruction}\n${input}`, answer: output }
    } catch (cause) {
      throw unusable(file, `line ${i + 1} is not as expected`, cause)
    }
  })
}

async function readLatencies(folder: string, name: string): Promise<LatencyTrace> {
  const file = join(folder, `llmperf-api-latency/${name}.jsonl`)
  const text = await read(file)
  const latencies = parseLatencyTrace(text, file)
  return { name, latencies, failed: text.trim().split('\n').length - latencies.length }
}

async function readShapes(file: string): Promise<Shape[]> {
  return parseRequestTrace(await read(file), file).map(({ promptTokens, outputTokens }) => shape(promptTokens, outputTokens))
}

const read = (file: string): Promise<string> =>
  readFile(file, 'utf8').catch((cause: unknown) => {
    throw unusable(file, 'cannot be read', cause)
  })

const unusable = (file: string, problem: string, cause?: unknown) =>
  new BrimError('REQUEST_INVALID', `the data file ${file}: ${problem}`, {
    cause,
    hint: 'name the folder that holds llmperf-api-latency, alpaca-demo and azure-llm-2023 with --data',
  })
