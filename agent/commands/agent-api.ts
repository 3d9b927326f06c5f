import { z } from 'zod'
import type { Io } from '../../core/kit/base/io.ts'
import { readApiKeys } from '../api/api-keys.ts'

export const apiOption = z
  .url({ protocol: /^https?$/, error: 'must be an HTTP URL, such as http://127.0.0.1:7071' })
  .default('http://127.0.0.1:7071')
  .describe("URL of the agent's API")

/** The first key of the file; `-`: of standard input. @throws BrimError CONFIG_INVALID */
export const readAgentApiKey = async (file: string, io: Io): Promise<string> =>
  file === '-' ? (await io.stdin()).trim() : readApiKeys(file)[0]!
