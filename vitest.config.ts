import { defineConfig } from 'vitest/config'

const integration = 'test/**/*.integration.test.ts'
/** They measure the memory or the children of their process. */
const measuringProcess = ['test/core/model/memory.integration.test.ts', 'test/security/hostile-graphs.integration.test.ts']

export default defineConfig({
  test: {
    pool: 'forks',
    // One process runs file after file: loading the modules would take a third of the time. State lives in objects that a
    // test constructs and closes, so files do not see each other.
    isolate: false,
    maxWorkers: 2,
    // For machines that do other work too: no test needs half of it.
    testTimeout: 60_000,
    hookTimeout: 60_000,
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
          exclude: measuringProcess,
          // They often wait for processes and timers.
          maxWorkers: 3,
          sequence: { groupOrder: 1 },
        },
      },
      {
        extends: true,
        test: { name: 'process', include: measuringProcess, isolate: true, maxWorkers: 3, sequence: { groupOrder: 1 } },
      },
    ],
  },
})
