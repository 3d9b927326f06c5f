import { join } from 'node:path'
import { readText } from '../run/scenario-data.ts'
import { parseRequestTrace } from '../traces/request-trace.ts'
import type { TracePart } from './trace-day.ts'

/** Whose prompts are long for devices: Mooncake's are scaled by a tenth. Programs that complete code keep no secrets here. */
const traces = [
  { file: 'azure-llm-2023/AzureLLMInferenceTrace_conv.csv', prompts: 1, privateShare: 0.3 },
  { file: 'azure-llm-2023/AzureLLMInferenceTrace_code.csv', prompts: 1, privateShare: 0 },
  { file: 'mooncake/conversation_trace.jsonl.gz', prompts: 0.1, privateShare: 0.3 },
]

/** The traces of a day, from the data folder. @throws BrimError REQUEST_INVALID naming the file that is missing */
export const readTraces = (folder: string): Promise<TracePart[]> =>
  Promise.all(
    traces.map(async ({ file, ...part }) => ({ ...part, requests: parseRequestTrace(await readText(join(folder, file)), file) })),
  )
