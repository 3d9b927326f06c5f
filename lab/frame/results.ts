import { access, constants, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { BrimError } from '../../core/base/errors.ts'
import { projectRoot } from '../../core/base/version.ts'
import { renderFigure } from '../plot/plot.ts'
import type { Bench, BenchDocument, BenchReport, Goals } from './bench.ts'
import { benchPage } from './page.ts'

const Document = z.object({
  bench: z.string(),
  conditions: z.record(z.string(), z.unknown()),
  summary: z.record(z.string(), z.number().nullable()),
  runs: z.array(z.looseObject({})),
  repetitions: z.array(z.record(z.string(), z.number().nullable())).optional(),
})

type Named = Pick<Bench, 'name' | 'commandLine'>

export const commandLineOf = ({ name, commandLine = `brim bench ${name}` }: Named): string => commandLine

/** Where --save writes. */
export const resultFolder = (name: string): string => fileURLToPath(new URL(`docs/results/${name}/`, projectRoot))

/** Reads a document that --save has written. @throws BrimError REQUEST_INVALID */
export async function readDocument(file: string, bench: Named): Promise<BenchDocument> {
  const invalid = (problem: string, cause?: unknown) =>
    new BrimError('REQUEST_INVALID', `${file} ${problem}`, {
      cause,
      hint: `give a file that "${commandLineOf(bench)} --save" wrote`,
    })
  const text = await readFile(file, 'utf8').catch((cause: unknown) => {
    throw invalid('cannot be read', cause)
  })
  try {
    const document = Document.parse(JSON.parse(text))
    if (document.bench === bench.name) return document
  } catch (cause) {
    throw invalid('is not a benchmark document', cause)
  }
  throw invalid('is the document of another benchmark')
}

/** Creates a folder before anything is measured. @throws BrimError TARGET_UNWRITABLE */
export async function createFolder(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true })
    await access(folder, constants.W_OK)
  } catch (cause) {
    throw unwritable(folder, cause)
  }
}

/** Writes document, figure and page. @throws BrimError TARGET_UNWRITABLE */
export async function saveResults(folder: string, document: BenchDocument, report: BenchReport, goals: Goals): Promise<void> {
  const texts = {
    json: `${JSON.stringify(document, null, 1)}\n`,
    svg: renderFigure(report.figure(document)),
    md: benchPage(document, report, goals),
  }
  try {
    for (const [ending, text] of Object.entries(texts)) await writeFile(join(folder, `${document.bench}.${ending}`), text)
  } catch (cause) {
    throw unwritable(folder, cause)
  }
}

const unwritable = (folder: string, cause: unknown) =>
  new BrimError('TARGET_UNWRITABLE', `${folder} cannot be written`, { cause, hint: 'name another folder with --out' })
