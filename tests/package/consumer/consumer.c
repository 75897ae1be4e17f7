#include <stdio.h>
#include <string.h>

#include <pleiades/pleiades.h>

int main(void) {
  ple_model* model = NULL;
  printf("pleiades %s\n", ple_version());
  if (ple_model_open("no such folder", &model) == PLE_OK || model != NULL) return 1;
  printf("%s\n", ple_last_error());
  return strlen(ple_last_error()) == 0;
}
