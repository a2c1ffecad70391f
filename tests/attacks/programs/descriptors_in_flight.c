// Keeps descriptors open inside messages, where no limit of a process counts them.
// expect: ok nonzero
#include "hostile.h"
#include <sys/socket.h>
int main(void) {
    int sent = 0;
    for (int round = 0; round < 60; round++) {
        int two[2];
        if (socketpair(AF_UNIX, SOCK_DGRAM, 0, two)) return 1;
        for (int i = 0; i < 200; i++) {
            char room[CMSG_SPACE(sizeof two)] = {0}, byte = 0;
            struct iovec part = {&byte, 1};
            struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof room};
            struct cmsghdr *head = CMSG_FIRSTHDR(&message);
            head->cmsg_level = SOL_SOCKET; head->cmsg_type = SCM_RIGHTS; head->cmsg_len = CMSG_LEN(sizeof two);
            memcpy(CMSG_DATA(head), two, sizeof two);
            if (sendmsg(two[0], &message, MSG_DONTWAIT) < 0) break;
            sent += 2;
        }
    }
    if (sent > 1024) printf("BREACH %d descriptors\n", sent);
    return 0;
}
