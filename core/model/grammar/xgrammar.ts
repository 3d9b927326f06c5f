import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname } from 'node:path'
import vm from 'node:vm'
import type * as Xgrammar from '@mlc-ai/web-xgrammar'

export type { CompiledGrammar, GrammarCompiler, GrammarMatcher } from '@mlc-ai/web-xgrammar'

/** What is used of it: the types of Node have no WebAssembly. */
declare const WebAssembly: {
  readonly Memory: {
    readonly prototype: { readonly buffer: ArrayBuffer; grow(this: { readonly buffer: ArrayBuffer }, pages: number): number }
  }
}

const require = createRequire(import.meta.url)
const bytesPerPage = 64 * 1_024

export interface LoadedXgrammar {
  readonly library: typeof Xgrammar
  /** What it has printed since the last call: parts of a schema that it ignores, and why it aborts. */
  takePrinted(): string
}

/**
 * Loads the library, whose package says that its UMD file is an ES module, so that `import` finds no exports in it.
 * For a thread of its own: WebAssembly memory has a limit there from now on, and what the library prints is kept.
 * @param maxBytes of its memory
 */
export async function loadXgrammar(maxBytes: number): Promise<LoadedXgrammar> {
  const grow = WebAssembly.Memory.prototype.grow
  WebAssembly.Memory.prototype.grow = function (pages) {
    if (this.buffer.byteLength + pages * bytesPerPage > maxBytes) throw new RangeError('the memory of the thread is used up')
    return grow.call(this, pages)
  }
  const printed: string[] = []
  const keep = (...words: unknown[]) => {
    if (!/^Aborted/.test(String(words[0]))) printed.push(words.join(' '))
  }
  Object.assign(console, { log: keep, warn: keep, error: keep })
  const takePrinted = () => printed.splice(0).join('\n')
  const file = require.resolve('@mlc-ai/web-xgrammar')
  const exports = {}
  const load = vm.compileFunction(await readFile(file, 'utf8'), ['exports', 'require', 'module', '__filename', '__dirname'], {
    filename: file,
    importModuleDynamically: vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER,
  })
  load(exports, require, { exports }, file, dirname(file))
  return { library: exports as typeof Xgrammar, takePrinted }
}
