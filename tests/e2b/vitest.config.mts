// SPDX-License-Identifier: Apache-2.0
import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['tests/**/*.test.ts'],
    isolate: true,
    testTimeout: 60_000,
    environment: 'node',
    setupFiles: ['tests/globalFetchFallback.setup.ts'],
    maxWorkers: 2,
    env: process.env as Record<string, string>,
  },
})
