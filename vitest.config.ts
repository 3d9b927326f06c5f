import { defineConfig } from 'vitest/config'

const integration = 'test/**/*.integration.test.ts'

export default defineConfig({
  test: {
    // Each file runs in its own process: ONNX Runtime and brokers are not shared between files.
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: 30_000,
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
      { extends: true, test: { name: 'integration', include: [integration] } },
    ],
  },
})
