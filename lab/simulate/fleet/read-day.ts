import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import { BrimError } from '../../../core/kit/base/errors.ts'
import { parseRequestTrace } from '../traces/request-trace.ts'
import type { TracePart } from './trace-day.ts'

/** Whose prompts are long for devices: Mooncake's are scaled by a tenth. Programs that complete code keep no secrets here. */
const traces = [
  { file: 'azure-llm-2023/AzureLLMInferenceTrace_conv.csv', prompts: 1, privateShare: 0.3 },
  { file: 'azure-llm-2023/AzureLLMInferenceTrace_code.csv', prompts: 1, privateShare: 0 },
  { file: 'mooncake/conversation_trace.jsonl.gz', prompts: 0.1, privateShare: 0.3 },
]

/** The traces of a day, from the data folder. @throws BrimError REQUEST_INVALID naming the file that is missing */
export async function readTraces(folder: string): Promise<TracePart[]> {
  const parts = traces.map(async ({ file, ...part }) => {
    const path = join(folder, file)
    const bytes = await readFile(path).catch((cause: unknown) => {
      throw new BrimError('REQUEST_INVALID', `the trace ${path} cannot be read`, {
        cause,
        hint: 'name the folder that holds azure-llm-2023, mooncake and net-lumos5g with --data',
      })
    })
    const text = (file.endsWith('.gz') ? await promisify(gunzip)(bytes) : bytes).toString('utf8')
    return { ...part, requests: parseRequestTrace(text, path) }
  })
  return await Promise.all(parts)
}
