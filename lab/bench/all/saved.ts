import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { z } from 'zod'
import { isSameCode } from '../../frame/commit.ts'

const Saved = z.object({ conditions: z.object({ command: z.string(), commit: z.string().nullable() }) })

/**
 * Whether a document was saved by this code. A full run also stands for a quick one, not the reverse.
 * @param folder of the document
 */
export async function isSaved(folder: string, name: string, quick: boolean, commit: string | null): Promise<boolean> {
  if (commit === null) return false
  const text = await readFile(join(folder, `${name}.json`), 'utf8').catch(() => undefined)
  if (text === undefined) return false
  const { command, commit: of } = Saved.parse(JSON.parse(text)).conditions
  return of !== null && (quick || !command.split(' ').includes('--quick')) && isSameCode(of, commit)
}
