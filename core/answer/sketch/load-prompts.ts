import { readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { BrimError } from '../../kit/base/errors.ts'
import { picePromptsFile } from '../../model/bundle/checkpoint.ts'
import { tokenizerFolder } from '../../model/bundle/manifest.ts'
import { generalPrompts, PicePrompts } from './prompts.ts'

const maxBytes = 65_536

/**
 * What to ask the model of a bundle: the prompts that its folder brought, else these.
 * @throws BrimError PROMPTS_INVALID naming the file
 */
export async function loadPicePrompts(bundle: string, otherwise: PicePrompts = generalPrompts): Promise<PicePrompts> {
  const file = join(bundle, tokenizerFolder, picePromptsFile)
  const isMissing = await stat(file).then(
    () => false,
    (cause: NodeJS.ErrnoException) => cause.code === 'ENOENT',
  )
  return isMissing ? otherwise : readPicePrompts(file)
}

/** @throws BrimError PROMPTS_INVALID naming the file */
export async function readPicePrompts(file: string): Promise<PicePrompts> {
  const parsed = PicePrompts.safeParse(parseJson(file, await readText(file)))
  if (parsed.success) return parsed.data
  const wrong = parsed.error.issues.map(({ path, message }) => [path.join('.'), message].filter(Boolean).join(': '))
  throw invalid(file, wrong.join('; '))
}

async function readText(file: string): Promise<string> {
  try {
    if ((await stat(file)).size <= maxBytes) return await readFile(file, 'utf8')
  } catch (cause) {
    throw invalid(file, 'it cannot be read', cause)
  }
  throw invalid(file, `it has more than ${maxBytes} bytes`)
}

function parseJson(file: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw invalid(file, 'it is not JSON', cause)
  }
}

function invalid(file: string, why: string, cause?: unknown): BrimError {
  return new BrimError('PROMPTS_INVALID', `${file}: ${why}`, {
    ...(cause === undefined ? {} : { cause }),
    hint: 'docs/sketches.md shows such a file and explains its fields',
  })
}
