import { dirname, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig, type Plugin } from 'vitest/config'
import { LongestFirst } from './test/support/longest-first.ts'

const integration = 'test/**/*.integration.test.ts'
/** They measure the memory or the children of their process. */
const measuringProcess = ['test/core/model/bundle/memory.integration.test.ts', 'test/security/hostile-graphs.integration.test.ts']
/** They load a driver, which starts threads. */
const withDriver = ['test/gpu/*.integration.test.ts']

const root = fileURLToPath(new URL('./', import.meta.url))

/**
 * The sources that tests import run as users run them, from dist/; those of the page, which a browser gets in one file, do not. To transform them, once for every project, took a tenth to
 * half of the CPU time of a test file.
 */
const builtSources: Plugin = {
  name: 'built-sources',
  enforce: 'pre',
  resolveId(id, importer) {
    if (!id.startsWith('.') || importer === undefined) return
    const path = relative(root, resolve(dirname(importer), id))
    return /^(?!test\/|cloud-bridge\/page\/|\.\.).*\.ts$/.test(path)
      ? resolve(root, 'dist', path.replace(/ts$/, 'js'))
      : undefined
  },
}

export default defineConfig({
  plugins: [builtSources],
  test: {
    server: { deps: { external: [`${root}dist/`] } },
    globalSetup: ['test/support/build.ts'],
    pool: 'forks',
    // One process runs file after file: loading the modules would take a third of the time. State lives in objects that a
    // test constructs and closes, so files do not see each other.
    isolate: false,
    maxWorkers: 2,
    sequence: { sequencer: LongestFirst },
    // For machines that do other work too: no test needs half of it.
    testTimeout: 60_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 30_000, interval: 20 } },
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: [integration],
          setupFiles: ['test/support/no-ports-or-processes.ts'],
        },
      },
      // Opens ports, starts processes, or takes many seconds.
      {
        extends: true,
        test: {
          name: 'integration',
          include: [integration],
          exclude: [...measuringProcess, ...withDriver],
          // They often wait for processes and timers.
          maxWorkers: 3,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: {
          name: 'process',
          include: [...measuringProcess, ...withDriver],
          isolate: true,
          maxWorkers: 3,
          sequence: { groupOrder: 1 },
        },
      },
    ],
  },
})
